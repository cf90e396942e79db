/* The DLL of Windows 10 that Rust takes random bytes from, for Wine before 8.19, which has none. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *bytes, SIZE_T length) { return RtlGenRandom(bytes, length); }
