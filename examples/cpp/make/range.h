/* Shared by the kernel (saxpy.tc) and the program (main.c). */
#define LOWEST (-4.0f)
#define HIGHEST 4.0f
