/* A tensor in the memory of a GPU: every rank contributes one, and every rank gets the sum. The
 * program uses the interface of the CUDA driver (<cuda.h>); with that of the runtime it would pass
 * a cudaStream_t. ../README.md says how to build it.
 *
 *     bps run -np 2 push_pull_gpu_c
 */
#include <cuda.h>
#include <stdio.h>

#include "byteps/device.h"

enum { kCount = 1 << 20 };

static int Fail(const char* what, int code) {
  fprintf(stderr, "push_pull_gpu_c: %s: error %d\n", what, code);
  return 1;
}

/* Starts the sum behind what `stream` has to do; does not wait for it. */
static byteps_code Start(byteps_session* session, CUdeviceptr gradient, int32_t device,
                         CUstream stream, byteps_handle* handle, byteps_error* error) {
  const int64_t shape[] = {kCount};
  byteps_request request = BYTEPS_INIT(byteps_request);
  request.name = "gradient";
  request.op = BYTEPS_SUM;
  request.dtype = BYTEPS_INT32;
  request.shape = shape;
  request.dimensions = 1;
  request.input = (const void*)gradient;
  request.output = (void*)gradient;
  request.memory = BYTEPS_MEMORY_DEVICE;
  request.device = device;
  request.stream = stream;
  return byteps_start(session, &request, handle, error);
}

/* Sums on one device; its context is current. */
static int Run(byteps_session* session, int32_t device, byteps_error* error) {
  CUdeviceptr gradient = 0;
  CUstream stream = NULL;
  int32_t sum = 0;
  byteps_handle handle = 0;
  byteps_code code = BYTEPS_OK;
  if (cuMemAlloc(&gradient, kCount * sizeof(int32_t)) != CUDA_SUCCESS ||
      cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS) {
    return Fail("no memory on the GPU", 0);
  }
  /* Rank r contributes r+1 everywhere, so the sum is 1 + 2 + ... + size. In place of this, a
   * program launches its kernels. */
  cuMemsetD32Async(gradient, (unsigned)byteps_rank(session) + 1, kCount, stream);
  code = Start(session, gradient, device, stream, &handle, error);
  if (code == BYTEPS_OK) code = byteps_wait(session, handle, /*timeout_ms=*/-1, error);
  byteps_release(session, handle);
  if (code == BYTEPS_OK) {
    cuMemcpyDtoH(&sum, gradient, sizeof(sum));
    printf("rank %d of %d: sum %d\n", (int)byteps_rank(session), (int)byteps_size(session), sum);
  }
  cuStreamDestroy(stream);
  cuMemFree(gradient);
  return code == BYTEPS_OK ? 0 : Fail(error->message, code);
}

int main(void) {
  byteps_session* session = NULL;
  byteps_error error = BYTEPS_INIT(byteps_error);
  byteps_device_info info = BYTEPS_INIT(byteps_device_info);
  byteps_code code = byteps_open(NULL, 0, &session, &error);
  CUdevice device = 0;
  CUcontext context = NULL;
  int status = 1;
  if (code == BYTEPS_OK) code = byteps_get_device_info(NULL, 0, 0, &info, &error);
  if (code != BYTEPS_OK) {
    byteps_close(session);
    return Fail(error.message, code);
  }
  /* Each rank of a machine takes a GPU of its own, as far as there are some. */
  device = byteps_local_rank(session) % info.count;
  if (cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS) {
    cuCtxSetCurrent(context);
    status = Run(session, device, &error);
  }
  byteps_close(session);
  if (context != NULL) cuDevicePrimaryCtxRelease(device);
  return status;
}
