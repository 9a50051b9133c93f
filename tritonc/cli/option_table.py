"""The table of commands and of their options.

Each command-line option is one row of `TABLE`.  The command line's parser, `--help`, the manual
page and docs/cli.md derive from the rows; a test checks that the documents agree with them.
A row whose `name` is a field of `options.Options` sets that field; the others belong to the command
line itself (where output goes, what kind it is)."""

from tritonc.meta_parameters import META_PARAMETERS
from tritonc.options import DEFAULT_ARCH, MOST_VARIANTS, WORKAROUNDS
from tritonc.outputs import KINDS
from tritonc.records import NamedTuple

MESSAGES = "-"  # as the file of --remarks: among the messages
WITHIN = 2.0  # per cent
SHORT = "short"  # as the topic of --help: what is used most


class Option(NamedTuple):
    """One row.  `flags` are all spellings, the first the one that help shows first.

    `value` names the value in help; without one the option is a switch that stores True, or
    `stores`.  `joined`: the value may follow the flag with nothing between (-DNAME, -O2).
    A spelling of two dashes, or of one with more than a letter, takes `=VALUE` too."""

    name: str
    flags: tuple[str, ...]
    help: str
    group: str
    value: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""  # as help states it
    many: bool = False  # may be given several times
    joined: bool = False
    optional_value: str = ""  # what a bare flag means where a value may follow (--flag[=VALUE])
    off: tuple[str, ...] = ()  # spellings of the opposite
    stores: str = ""
    prefix: str = ""  # put before each value
    commands: tuple[str, ...] = ("compile",)
    common: bool = False  # in the short help of `compile`


class Command(NamedTuple):
    """A subcommand; "compile" is the one that needs no name.  `summary` is for the list of
    commands.  The function `NAME_command` of `cli/MODULE_command.py` takes the files and every
    option's value by its name, and returns the exit code; the module's name is the command's, if
    `module` says no other."""

    usage: str
    description: str
    summary: str
    module: str = ""


COMMANDS: dict[str, Command] = {
    "compile": Command("tritonc [options] FILE [-o OUT]", """\
Compile FILE to PTX or another kind of output. FILE is a Triton-C source (.tc), Triton-IR (.tir), or
standard input (-). `tritonc run FILE` runs the problem that FILE states about itself.""",
                       "Compile to PTX or another kind of output."),
    "run": Command("tritonc run [options] FILE", """\
Run the problems that FILE states in its //! lines, in the interpreter or on a GPU, and compare the
results with their references. Prints one line for each problem.""",
                   "Run the problems that FILE states in its //! lines."),
    "test": Command("tritonc test [options] FILE...", """\
Run the problems of many files, as `tritonc run` does for one file. After an error in one file the
others still run. The last line counts the problems that passed.""",
                    "Run the problems of many files.", "run"),
    "debug": Command("tritonc debug [options] FILE", """\
Run the problems of FILE in the interpreter and stop where you ask: at a line, in a program
instance, or when a value changes. The commands are like those of gdb; `help` lists them. They come
from standard input, or from the file that -x names.""",
                     "Stop a kernel at a line and look at its tiles."),
    "tune": Command("tritonc tune [options] FILE", """\
Compile FILE with every combination of its tunables and meta-parameters, measure each on the GPUs of
this machine, and write the best to STEM.tune.json. tritonc reads that file when it compiles FILE.
Measurements are kept, so a run that was stopped continues where it ended. Without a GPU, only the
cost model's ranking is printed, and the exit code is 3.""",
                    "Measure all values of the tunables on a GPU and keep the best."),
    "bench": Command("tritonc bench [options] FILE", """\
Check the results of the kernels of FILE on a GPU, then time them at the sizes of its bench: lines.
The flops: and bytes: lines turn times into rates.""",
                     "Time the kernels of FILE on a GPU.", "tune"),
    "info": Command("tritonc info [options] [FILE]", """\
Print how to launch the kernels of FILE, which is a .ptx file that tritonc wrote, or a source. Where
NVIDIA's ptxas is installed, also print the registers and shared memory that they need. Without
FILE, print what this machine has: versions, GPUs, targets.""",
                    "Print how kernels are launched, or what this machine has."),
    "prove": Command("tritonc prove [options] FILE", """\
Prove that each access of the kernels of FILE is in bounds for all sizes that the problem's where:
lines allow, and that no two instances touch one byte of a buffer. Each question is answered by
proved, REFUTED (with sizes, instance and element), or unknown (with the missing fact). Exit code 1:
something is refuted, or FILE is wrong. Exit code 4: something is unknown.""",
                     "Prove that accesses are in bounds, for all sizes."),
    "reduce": Command("tritonc reduce [options] FILE -- COMMAND...", """\
Shrink FILE (.tc or .tir) as far as possible while COMMAND still ends with the same exit status. In
COMMAND, {} stands for the path of the text to try; without {} the path becomes the last argument.
The output always holds the smallest text found so far, also after an interruption.""",
                      "Shrink FILE while a command still fails in the same way."),
    "bug": Command("tritonc bug [options] FILE", """\
Compile FILE with the given options, run its problems in the interpreter, and put everything that a
bug report needs into one archive: the source, the preprocessed source, options, versions, messages,
and the IR before the pass that failed. Look into the archive before you send it.""",
                   "Make an archive for a bug report.")}
_RUNNING = ("run", "test")
_BOTH = ("compile", *_RUNNING, "bug")
_MEASURING = ("tune", "bench")
_DEBUG = ("debug",)
_PROVING = ("prove",)
_ALL = (*_BOTH, *_DEBUG, *_PROVING, *_MEASURING, "info")
_READING = (*_ALL, "reduce")
OUTPUT, PREPROCESSOR, TARGET, OPTIMISATION, WARNINGS, DEBUGGING, DEPENDENCIES, RUNNING, OTHER = (
    "Output", "Preprocessor", "Target", "Optimisation and arithmetic", "Diagnostics",
    "Debugging", "Dependencies for make and ninja", "Running", "Other")  # fmt: skip

TABLE: tuple[Option, ...] = (
    Option("output", ("-o", "--output"), "Write to FILE. Its suffix selects the kind of output; "
           "without a suffix it is PTX. - is standard output. Without -o, the output is the "
           "source's stem with the kind's suffix, in the working directory; -E and -M write to "
           "standard output.", OUTPUT, "FILE", joined=True, common=True),
    Option("output", ("-o", "--output"), "Write to FILE.", OUTPUT, "FILE", joined=True,
           default="STEM.reduced and the suffix of the source", commands=("reduce",)),
    Option("output", ("-o", "--output"), "Write the archive to FILE.", OUTPUT, "FILE", joined=True,
           default="STEM.bug.tar.gz in the working directory", commands=("bug",)),
    Option("emit", ("--emit",), f"The kinds of output: {', '.join(KINDS)}. Several kinds go to the "
           "stem of -o, each with its own suffix.", OUTPUT, "KIND[,KIND]",
           default="by the suffix of -o, else ptx", many=True, common=True),
    Option("emit", ("-S",), "The same as --emit=ptx.", OUTPUT, stores="ptx"),
    Option("emit", ("-c",), "The same as --emit=cubin: machine code. Needs NVIDIA's ptxas.", OUTPUT,
           stores="cubin"),
    Option("emit", ("-E", "--preprocess"), "Preprocess only; the same as --emit=i.", OUTPUT,
           stores="i"),
    Option("header", ("--header",), "Also write a C99 and C++11 header to FILE, with typed "
           "functions that launch the kernels through the CUDA driver API.", OUTPUT, "FILE",
           common=True),
    Option("embed", ("--embed",), "Embed the PTX or machine code in the header.", OUTPUT, "KIND",
           choices=("ptx", "cubin", "fatbin"), optional_value="ptx"),
    Option("prefix", ("--prefix",), "Prefix of the names in the header.", OUTPUT, "NAME",
           default="the source's stem, and nothing before kernels"),
    Option("ptxas", ("--ptxas",), "Path of NVIDIA's assembler, which makes machine code.", OUTPUT,
           "PATH",
           default="the one on PATH, in CUDA_HOME, in /usr/local/cuda, or in a Python package",
           commands=("compile", "info")),
    Option("if_changed", ("--if-changed",), "Do not touch an output whose content would not "
           "change.", OUTPUT),
    Option("save_temps", ("--save-temps", "-save-temps"), "Also keep the intermediate files .i, "
           ".tir, .ll and .ptx beside the output.", OUTPUT),
    Option("dry_run", ("--dry-run", "-###"), "Print what would be read, run and written, but do "
           "nothing.", OUTPUT),
    Option("syntax_only", ("-fsyntax-only", "--syntax-only"), "Check the source and write nothing.",
           OUTPUT),
    Option("defines", ("-D", "--define"), "Define a macro; without a value it is 1.", PREPROCESSOR,
           "NAME[=VALUE]", many=True, joined=True, commands=_READING, common=True),
    Option("defines", ("-U", "--undefine"), "Undefine a macro.", PREPROCESSOR, "NAME", many=True,
           joined=True, prefix="-U", commands=_READING),
    Option("include_dirs", ("-I", "--include-dir"), "Also search DIRECTORY for included files.",
           PREPROCESSOR, "DIRECTORY", many=True, joined=True, commands=_READING, common=True),
    Option("system_dirs", ("-isystem", "--system-dir"), "The same, but searched after all -I "
           "directories, and without warnings about the files there.", PREPROCESSOR, "DIRECTORY",
           many=True, joined=True, commands=_READING),
    Option("forced_includes", ("-include", "--include"), "Include FILE before the source.",
           PREPROCESSOR, "FILE", many=True, commands=_READING),
    Option("arch", ("--arch", "-arch"), "The GPU to compile for: a target of --list-targets, or "
           "native for the GPU of this machine. Several targets, as in sm_80,sm_90a, go into one "
           "fatbin.", TARGET, "NAME",
           default=f"{DEFAULT_ARCH}; native for run and test --device=cuda, tune and bench",
           commands=_ALL, common=True),
    Option("ptx", ("-mptx", "--ptx"), "The PTX version to write, such as 8.3.", TARGET, "VERSION",
           default="the lowest version that has all features of the target",
           commands=("compile", "bug")),
    Option("list_targets", ("--list-targets",), "List the targets and exit.", TARGET, common=True),
    Option("tune", ("--tune",), "Give a tunable its value, or a meta-parameter of a pass "
           f"(docs/tuning.md): {', '.join(row.name for row in META_PARAMETERS)}.", OPTIMISATION,
           "NAME=VALUE",
           default="the value in the tuning file, else the cost model's choice; -v prints it",
           many=True, commands=_ALL, common=True),
    Option("tuning", ("--tuning",), "Read tunables from FILE, which tritonc tune wrote; none reads "
           "no tuning file.", OPTIMISATION, "FILE",
           default="STEM.tune.json beside the source, if there is one", commands=_ALL),
    Option("opt_level", ("-O", "--optimize"), "Optimisation level.", OPTIMISATION, "LEVEL",
           choices=("0", "1", "2", "3"), default="2; 0 with -g and in the interpreter", joined=True,
           optional_value="1", commands=_ALL, common=True),
    Option("fp_contract", ("-ffp-contract", "--fp-contract"), "Whether a * b + c in one expression "
           "may become a fused multiply-add, which rounds once.", OPTIMISATION, "WHEN",
           choices=("on", "off"), default="on", commands=_ALL),
    Option("fast_math", ("-ffast-math", "--fast-math"), "Allow reassociation, approximate "
           "division, flushing of subnormals, and float8 products with the reduced precision of "
           "tensor core accumulators.", OPTIMISATION, off=("-fno-fast-math",), commands=_ALL,
           common=True),
    Option("denormal", ("-fdenormal", "--denormal"), "Keep subnormal floats (ieee), or flush them "
           "to zero.", OPTIMISATION, "WHAT", choices=("ieee", "flush"),
           default="ieee; flush with -ffast-math", commands=_ALL),
    Option("precise_math", ("-fprecise-math", "--precise-math"), "Compute functions such as exp to "
           "the last bit.", OPTIMISATION, off=("-fno-precise-math",), commands=_ALL),
    Option("no_workarounds", ("--no-workaround",), "Leave out a workaround for a fault of NVIDIA's "
           "assembler, to see whether your version has it.", OPTIMISATION, "NAME",
           choices=WORKAROUNDS, many=True, commands=_BOTH),
    Option("device_assert", ("--device-assert",), "Compile assert and printf into the kernel.",
           OPTIMISATION, commands=_BOTH),
    Option("warnings", ("-W", "--warn"), "Turn on a warning by its name, or the group all or "
           "extra. no-NAME turns a warning off; error turns all warnings into errors, error=NAME "
           "that one. --explain=list lists the names.", WARNINGS, "NAME", many=True, joined=True,
           commands=_ALL, common=True),
    Option("warnings", ("-w", "--no-warnings"), "Turn off all warnings.", WARNINGS, stores="no-all",
           commands=_ALL),
    Option("error_limit", ("-ferror-limit", "--error-limit"), "Stop after COUNT errors; 0 means no "
           "limit.", WARNINGS, "COUNT", default="20", commands=_ALL),
    Option("diagnostics_format", ("-fdiagnostics-format", "--diagnostics-format"), "Format of "
           "messages.", WARNINGS, "FORMAT", choices=("text", "json", "sarif"), default="text",
           commands=_READING),
    Option("color", ("-fdiagnostics-color", "--color"), "Colour messages. auto depends on the "
           "terminal, NO_COLOR and CLICOLOR_FORCE.", WARNINGS, "WHEN",
           choices=("auto", "always", "never"), default="auto", optional_value="always",
           commands=_READING),
    Option("remarks", ("--remarks",), "Print what the compiler did with each part of the source, "
           "what it could not do, and which fact is missing: wide accesses, pipelines, matrix "
           "instructions. With FILE, write the remarks there as JSON.", WARNINGS, "FILE",
           optional_value=MESSAGES, common=True),
    Option("remarks_done", ("-Rpass", "--remarks-done"), "Print only remarks about what was done, "
           "by passes whose name matches REGEX.", WARNINGS, "REGEX", optional_value="."),
    Option("remarks_missed", ("-Rpass-missed", "--remarks-missed"), "Print only remarks about what "
           "could not be done, by passes whose name matches REGEX.", WARNINGS, "REGEX",
           optional_value="."),
    Option("explain", ("--explain",), "Explain the diagnostic NAME; list lists all diagnostics.",
           WARNINGS, "NAME", common=True),
    Option("print_after", ("--print-after",), "Print the IR after PASS; all prints it after every "
           "pass.", DEBUGGING, "PASS", many=True),
    Option("print_before", ("--print-before",), "Print the IR before PASS; all prints it before "
           "every pass.", DEBUGGING, "PASS", many=True),
    Option("print_changed", ("--print-changed",), "Print the IR after each pass that changes it.",
           DEBUGGING),
    Option("stop_after", ("--stop-after",), "Stop after PASS and write the IR (.tir).", DEBUGGING,
           "PASS"),
    Option("start_after", ("--start-after",), "Continue with a .tir file that --stop-after=PASS "
           "wrote.", DEBUGGING, "PASS", commands=("compile", "bug")),
    Option("list_passes", ("--list-passes",), "List the passes in order and exit.", DEBUGGING),
    Option("verify_each", ("--verify-each",), "Verify the IR after every pass that changes it, and "
           "LLVM's.", DEBUGGING, commands=_BOTH),
    Option("line_info", ("-lineinfo", "--line-info"), "Put line numbers into the PTX, for "
           "profilers.", DEBUGGING, commands=_BOTH, common=True),
    Option("debug", ("-g", "--debug"), "Write debug information for cuda-gdb, which then stops at "
           "source lines. Turns off optimisation, in tritonc and in the assembler.", DEBUGGING,
           commands=_BOTH),
    Option("file_prefix_map", ("-ffile-prefix-map", "--file-prefix-map"), "Replace OLD by NEW at "
           "the start of source paths in the output: those of -lineinfo, -g, assert and __FILE__.",
           DEBUGGING, "OLD=NEW", many=True, commands=_BOTH),
    Option("time_report", ("-ftime-report", "--time-report"), "Print how long each stage took.",
           DEBUGGING, commands=_BOTH),
    Option("time_trace", ("-ftime-trace", "--time-trace"), "Write the times to FILE as a Chrome "
           "trace, which Perfetto displays.", DEBUGGING, "FILE"),
    Option("verbose", ("-v", "--verbose"), "Print what was decided: tunables, layouts, resources.",
           DEBUGGING, commands=_READING, common=True),
    Option("depend", ("-MD", "--write-dependencies"), "Write a dependency file for make beside the "
           "output, with suffix .d.", DEPENDENCIES, stores="MD", common=True),
    Option("depend", ("-MMD",), "The same, without files from -isystem directories.", DEPENDENCIES,
           stores="MMD"),
    Option("depend", ("-M",), "Write only the dependency rule, and compile nothing.", DEPENDENCIES,
           stores="M"),
    Option("depend", ("-MM",), "The same, without files from -isystem directories.", DEPENDENCIES,
           stores="MM"),
    Option("depend_file", ("-MF", "--dependency-file"), "Name of the dependency file.",
           DEPENDENCIES, "FILE"),
    Option("depend_targets", ("-MT", "--dependency-target"), "Target of the rule, as given.",
           DEPENDENCIES, "TARGET", many=True),
    Option("depend_quoted", ("-MQ", "--dependency-target-quoted"), "Target of the rule, quoted for "
           "make.", DEPENDENCIES, "TARGET", many=True),
    Option("depend_phony", ("-MP", "--dependency-phony"), "Add an empty rule for each included "
           "file.", DEPENDENCIES),
    Option("variants", ("--variants",), "Compile up to COUNT variants of each kernel beside the "
           "general one; each launch chooses by its arguments. The variants come from the tuning "
           "file if it has several sizes, else from the cost model.", OPTIMISATION, "COUNT",
           optional_value=str(MOST_VARIANTS), commands=("compile", "info", "bug"), common=True),
    Option("workspace", ("--workspace",), "With --variants: add up to two variants for problems of "
           "few tiles and long sums. They keep partial sums in memory that the launch gives.",
           OPTIMISATION, commands=("compile", "info"), common=True),
    Option("variant", ("--variant",), "Compile this variant of a kernel: values of tunables and "
           "meta-parameters, and facts about parameters that the launch tests (N%8, stride==1, "
           "K>=1).", OPTIMISATION, "[KERNEL:]NAME=VALUE,FACT...", many=True,
           commands=("compile", "info", "bug")),
    Option("sizes", ("--set",), "A size of the problem. The cost model chooses for it, and the "
           "nearest entry of the tuning file is used.", OPTIMISATION, "NAME=VALUE",
           default="the largest size in the tuning file", many=True, commands=("compile", "bug")),
    Option("sizes", ("--set",), "Change a size of the problem.", RUNNING, "NAME=VALUE", many=True,
           commands=(*_RUNNING, *_DEBUG)),
    Option("sizes", ("--set",), "Measure at this size: NAME=VALUE for every name, separated by "
           "commas. Give the option several times for several sizes, or a grid: M=1..64:x2 "
           "(doubling) or M=64..512:+64 (steps of 64).", RUNNING, "NAME=VALUE,...",
           default="those of the problem's bench: lines", many=True, commands=_MEASURING),
    Option("size_files", ("--sizes",), "Measure at the sizes in FILE, one on each line, in the "
           "form of --set.", RUNNING, "FILE", many=True, commands=_MEASURING),
    Option("within", ("--within",), "With several sizes, keep as few configurations as possible "
           "such that each size is at most PERCENT slower than with its best one.", RUNNING,
           "PERCENT", default=f"{WITHIN:g}; 0 keeps the best of each size", commands=("tune",)),
    Option("space", ("--space",), "What to search: tunables and meta-parameters (all), or tunables "
           "with the micro- and nano-tiles of products on CUDA cores, as in the paper (nesting).",
           RUNNING, "SPACE", choices=("all", "nesting"), default="all", commands=("tune",)),
    Option("where", ("--where",), "Try only candidates for which this expression over tunables and "
           "meta-parameters holds, such as 'TM * TN <= 8192 and num_warps == 4'.", RUNNING,
           "EXPRESSION", commands=("tune",)),
    Option("device", ("--device",), "Where to run the kernels.", RUNNING, "DEVICE",
           choices=("interpreter", "cuda"), default="interpreter", commands=_RUNNING),
    Option("kernel", ("--kernel",), "Use only the problems of this kernel.", RUNNING, "NAME",
           commands=(*_RUNNING, *_DEBUG, *_PROVING, *_MEASURING)),
    Option("every", ("--every",), "Prove it for all values of the tunables, not only for those "
           "that a compilation chooses.", RUNNING, commands=_PROVING),
    Option("commands", ("-x", "--commands"), "Read the debugger's commands from FILE.", RUNNING,
           "FILE", default="standard input", commands=_DEBUG),
    Option("order", ("--order",), "The order in which the interpreter runs program instances: "
           "forward, reverse, random:SEED, or interleaved (one basic block of each in turn). A "
           "correct kernel gives the same result in every order.", RUNNING, "ORDER",
           default="forward", commands=(*_RUNNING, *_DEBUG)),
    Option("max_steps", ("--max-steps",), "Stop a program instance after COUNT operations: its "
           "loop does not end.", RUNNING, "COUNT", default="20000000",
           commands=(*_RUNNING, *_DEBUG)),
    Option("allow_python", ("--allow-python",), "Allow problems to name Python files for their "
           "references. Such a file is run, and may do anything on this machine.", RUNNING,
           commands=(*_RUNNING, *_DEBUG, *_PROVING)),
    Option("seed", ("--seed",), "Seed of the random numbers in the data.", RUNNING, "NUMBER",
           default="0", commands=(*_RUNNING, *_DEBUG, *_MEASURING)),
    Option("devices", ("--devices",), "The GPUs to measure on, by number.", RUNNING, "N[,N]",
           default="all GPUs of the same model as the first; for bench, the first",
           commands=_MEASURING),
    Option("against", ("--against",), "Also time this torch expression over the problem's "
           "arguments, such as 'torch.matmul(a, b)', in turn with the kernel.", RUNNING,
           "EXPRESSION", commands=("bench",)),
    Option("jobs", ("-j", "--jobs"), "Number of processes that compile.", RUNNING, "COUNT",
           default="one for each processor", joined=True, commands=("tune",)),
    Option("jobs", ("-j", "--jobs"), "Number of commands to run at the same time.", RUNNING,
           "COUNT", default="one for each processor", joined=True, commands=("reduce",)),
    Option("cluster", ("--cluster",), "Compile and measure on the workers of the dask.distributed "
           "scheduler at ADDRESS.", RUNNING, "ADDRESS", commands=("tune",)),
    Option("budget", ("--budget",), "Start no new candidate after SECONDS. The most promising ones "
           "come first.", RUNNING, "SECONDS", default="no limit", commands=("tune",)),
    Option("timeout", ("--timeout",), "Give up on a candidate after SECONDS.", RUNNING, "SECONDS",
           default="30", commands=("tune",)),
    Option("timeout", ("--timeout",), "Reject a text for which COMMAND takes longer than SECONDS.",
           RUNNING, "SECONDS", default="30", commands=("reduce",)),
    Option("matching", ("--matching",), "Also require that REGEX matches what COMMAND prints, so "
           "that a different error with the same exit status does not count.", RUNNING, "REGEX",
           commands=("reduce",)),
    Option("reduce", ("--reduce",), "Also add a reduced source that still fails.", RUNNING,
           commands=("bug",)),
    Option("fresh", ("--fresh",), "Ignore the measurements of earlier runs.", RUNNING,
           commands=("tune",)),
    Option("report", ("--report",), "Write an HTML report: the best candidates, time by parameter, "
           "a roofline.", RUNNING, "FILE.html", commands=("tune",)),
    Option("language", ("-x", "--language"), "The language of the source.", OTHER, "LANGUAGE",
           choices=("tc", "tir"), default="by the suffix of FILE; tc for unknown ones",
           commands=(*_BOTH, *_PROVING, "info", "reduce")),
    Option("cmake_dir", ("--cmake-dir",), "Print the directory of the CMake module and exit.",
           OTHER),
    Option("cuda_folder", ("--cuda-include",), "Print the folder of cuda.h, which headers include, "
           "and exit.", OTHER, stores="include"),
    Option("cuda_folder", ("--cuda-lib",), "Print the folder of libcuda or of its stub, with which "
           "programs link, and exit.", OTHER, stores="lib"),
    Option("version", ("--version",), "Print the version and exit.", OTHER, common=True),
    Option("dump_version", ("-dumpversion", "--dumpversion"), "Print only the version number and "
           "exit.", OTHER),
    Option("help", ("--help", "-h"), "Print help and exit. Without TOPIC, the options used most; "
           "all prints every option, and the first word of a group, such as target, prints that "
           "group.", OTHER, "TOPIC", optional_value=SHORT, commands=_READING, common=True),
)


def rows(command: str) -> list[Option]:
    """The rows that `command` ("compile" or a subcommand's name) takes, in the table's order."""
    return [row for row in TABLE if command in row.commands]


def canonical(row: Option) -> str:
    """The row's long spelling; the only one where there is no long one.

    >>> canonical(TABLE[0])
    '--output'
    """
    return next((f for f in row.flags if f.startswith("--")), row.flags[0])
