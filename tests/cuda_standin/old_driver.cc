// A stand-in for a CUDA driver of version 10.2, which lacks functions that the library needs.
#include <cuda.h>

extern "C" {

CUresult cuInit(unsigned int) { return CUDA_SUCCESS; }

CUresult cuDriverGetVersion(int* version) {
  *version = 10020;
  return CUDA_SUCCESS;
}

}  // extern "C"
