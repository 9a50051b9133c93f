#ifndef VALUES
#define VALUES
#define INCLUDED 20
#define INCLUDED_AGAIN(x) (INCLUDED * 2 + (x))
#endif
