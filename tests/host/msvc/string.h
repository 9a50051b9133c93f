/* What the headers use of Microsoft's C library, so that clang can compile for Windows here. */
#ifndef STRING_H
#define STRING_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
typedef struct _iobuf FILE;
#define SEEK_SET 0
#define SEEK_END 2
FILE *fopen(const char *, const char *);
int fclose(FILE *);
int fseek(FILE *, long, int);
long ftell(FILE *);
size_t fread(void *, size_t, size_t, FILE *);
void *malloc(size_t);
void free(void *);
void *memcpy(void *, const void *, size_t);
int strncmp(const char *, const char *, size_t);
size_t strlen(const char *);
#ifdef __cplusplus
}
#endif
#endif
