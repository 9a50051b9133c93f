#pragma once
#ifdef __cplusplus
extern "C" {
#endif
long _InterlockedExchange(long volatile *, long);
unsigned char _BitScanReverse64(unsigned long *, unsigned long long);
#ifdef __cplusplus
}
#endif
