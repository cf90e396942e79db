/* A replacement for the DLL of Windows 10 from which Rust takes random bytes. Wine before version 8.19 lacks it. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *bytes, SIZE_T length) { return RtlGenRandom(bytes, length); }
