# Kernels in Triton-C as part of a CMake project.
#
#   cmake -DTritonc_DIR=$(tritonc --cmake-dir) ...
#
#   find_package(Tritonc REQUIRED)
#   tritonc_add_kernel(saxpy saxpy.tc ARCH sm_80 EMBED)
#   target_link_libraries(program PRIVATE saxpy Tritonc::driver)
#
# Tritonc::driver has the folder of cuda.h and the driver's library, or its stub.
#
# tritonc_add_kernel(NAME SOURCE
#   [ARCH NAME]            the GPU to compile for (--arch)
#   [EMBED [KIND]]         the header holds the PTX, or a cubin or fatbin; without it, or with
#   [PTX FILE]             PTX too, a .ptx is written: NAME.ptx beside the header, or FILE
#   [PREFIX NAME]          what the header's names begin with (--prefix)
#   [DEFINES NAME=VALUE...] [INCLUDES DIRECTORY...] [OPTIONS OPTION...])
#
# makes a library NAME of which nothing is compiled: what links it can include the header, which has
# the stem of SOURCE, and waits for it to be written.  The source is compiled again when it, a file
# that it includes or the compiler's executable changes, and when the tuning file beside it appears,
# changes or goes.  The target's properties TRITONC_HEADER and TRITONC_PTX say where the files are.

cmake_minimum_required(VERSION 3.21)

get_filename_component(_tritonc_prefix "${CMAKE_CURRENT_LIST_DIR}/../../../../.." ABSOLUTE)
find_program(Tritonc_EXECUTABLE tritonc
  HINTS ENV VIRTUAL_ENV "${_tritonc_prefix}" PATH_SUFFIXES bin Scripts
  DOC "The compiler of Triton-C")
unset(_tritonc_prefix)
if(NOT Tritonc_EXECUTABLE)
  set(Tritonc_FOUND FALSE)
  set(Tritonc_NOT_FOUND_MESSAGE "the program tritonc is not on PATH; -DTritonc_EXECUTABLE=... says where it is")
  return()
endif()

# cuda.h and libcuda (or its stub), in the places that tritonc knows.
execute_process(COMMAND "${Tritonc_EXECUTABLE}" --cuda-include ERROR_QUIET
  OUTPUT_VARIABLE _tritonc_include OUTPUT_STRIP_TRAILING_WHITESPACE)
execute_process(COMMAND "${Tritonc_EXECUTABLE}" --cuda-lib ERROR_QUIET
  OUTPUT_VARIABLE _tritonc_lib OUTPUT_STRIP_TRAILING_WHITESPACE)
find_path(Tritonc_CUDA_INCLUDE cuda.h HINTS "${_tritonc_include}" DOC "The folder of cuda.h")
find_library(Tritonc_CUDA_DRIVER cuda HINTS "${_tritonc_lib}" DOC "libcuda, or its stub")
if(NOT TARGET Tritonc::driver)
  add_library(Tritonc::driver INTERFACE IMPORTED)
  if(Tritonc_CUDA_INCLUDE)
    target_include_directories(Tritonc::driver SYSTEM INTERFACE "${Tritonc_CUDA_INCLUDE}")
  else()
    message(WARNING "cuda.h is not installed: it comes with the CUDA toolkit, or "
      "pip install nvidia-cuda-runtime-cu12; -DTritonc_CUDA_INCLUDE=FOLDER says where it is")
  endif()
  if(Tritonc_CUDA_DRIVER)
    target_link_libraries(Tritonc::driver INTERFACE "${Tritonc_CUDA_DRIVER}")
  else()
    message(WARNING "neither libcuda nor its stub is installed: the stub comes with the CUDA "
      "toolkit; -DTritonc_CUDA_DRIVER=FILE says where it is")
  endif()
endif()
unset(_tritonc_include)
unset(_tritonc_lib)

function(tritonc_add_kernel NAME SOURCE)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "ARCH;PTX;PREFIX" "EMBED;DEFINES;INCLUDES;OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tritonc_add_kernel(${NAME}): what is '${arg_UNPARSED_ARGUMENTS}'?")
  endif()
  get_filename_component(source "${SOURCE}" ABSOLUTE)
  get_filename_component(stem "${SOURCE}" NAME_WLE)
  get_filename_component(beside "${source}" DIRECTORY)
  # Until the compiler has read a tuning file, its own rule of dependencies does not name it.
  file(GLOB tuning CONFIGURE_DEPENDS "${beside}/${stem}.tune.json")
  set(directory "${CMAKE_CURRENT_BINARY_DIR}/${NAME}-tritonc")
  set(header "${directory}/${stem}.h")
  set(made "${header}")

  set(flags "")
  if(DEFINED arg_EMBED OR "EMBED" IN_LIST arg_KEYWORDS_MISSING_VALUES)
    if(arg_EMBED)
      list(APPEND flags "--embed=${arg_EMBED}")
    else()
      list(APPEND flags --embed)
    endif()
  elseif(NOT arg_PTX)
    set(arg_PTX "${directory}/${stem}.ptx")
  endif()
  if(arg_PTX)
    get_filename_component(ptx "${arg_PTX}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
    list(PREPEND made "${ptx}")
    list(APPEND flags -o "${ptx}" --emit=ptx "--header=${header}")
  else()
    list(APPEND flags -o "${header}" --emit=header)
  endif()
  if(arg_ARCH)
    list(APPEND flags "--arch=${arg_ARCH}")
  endif()
  if(arg_PREFIX)
    list(APPEND flags "--prefix=${arg_PREFIX}")
  endif()
  foreach(definition IN LISTS arg_DEFINES)
    list(APPEND flags "-D${definition}")
  endforeach()
  foreach(include IN LISTS arg_INCLUDES)
    get_filename_component(include "${include}" ABSOLUTE)
    list(APPEND flags "-I${include}")
  endforeach()
  if(CMAKE_GENERATOR MATCHES "Ninja")
    # Ninja looks at the outputs' times again, so what depends on one that did not change rests.
    list(APPEND flags --if-changed)
  endif()

  file(MAKE_DIRECTORY "${directory}")
  add_custom_command(OUTPUT ${made}
    COMMAND "${Tritonc_EXECUTABLE}" "${source}" ${flags} -MD -MF "${header}.d" ${arg_OPTIONS}
    DEPENDS "${source}" ${tuning} "${Tritonc_EXECUTABLE}" DEPFILE "${header}.d"
    COMMENT "Compiling ${SOURCE} to PTX" VERBATIM)
  add_custom_target("${NAME}-tritonc" ALL DEPENDS ${made})
  add_library("${NAME}" INTERFACE)
  add_dependencies("${NAME}" "${NAME}-tritonc")
  target_include_directories("${NAME}" SYSTEM INTERFACE "${directory}")
  set_target_properties("${NAME}" PROPERTIES TRITONC_HEADER "${header}" TRITONC_PTX "${ptx}")
endfunction()
