/* byteps: the C interface for tensors in the memory of a GPU. `bps docs gpu` says what has been
 * tested, and where.
 *
 * A request names such a tensor with memory = BYTEPS_MEMORY_DEVICE, the number of the device, and
 * the stream that writes the input:
 *
 *     request.memory = BYTEPS_MEMORY_DEVICE;
 *     request.device = 0;
 *     request.stream = stream;
 *
 * Input and output lie in the memory of this device. The operation begins when its input is ready:
 * when the stream has done all that it was given before byteps_start. So the stream may still be
 * busy. The operation is complete when its result is in the device's memory, so any stream may read
 * it then, without an event. The results of allgather and alltoall, whose sizes nobody knows
 * before, are in host memory (byteps_result.data).
 *
 * The library finds the CUDA driver while the program runs, by the option cuda_library if the user
 * has set it. byteps_start returns BYTEPS_INVALID_ARGUMENT, with the reason, if there is no driver
 * or no such device, if the memory does not belong to the device, and if the stream is being
 * captured: an exchange cannot be part of a CUDA graph. byteps_start may wait for the driver, for
 * example while it loads a kernel. Other ranks do not wait for that; no thread of the job calls the
 * driver.
 */
#ifndef BYTEPS_DEVICE_H_
#define BYTEPS_DEVICE_H_

#include "byteps/byteps.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In place of a stream: the input is ready, and no stream writes it. (Null is CUDA's default
 * stream.) */
#define BYTEPS_NO_STREAM ((void*)(intptr_t)-1)

/* Written by byteps_get_device_info; the caller sets struct_size. The texts end with a zero. */
typedef struct byteps_device_info {
  size_t struct_size BYTEPS_SIZE_OF(byteps_device_info);
  int32_t count; /* number of devices that this process sees, and requests may name, from 0 */
  int32_t reserved;
  char name[128];   /* "NVIDIA H100 80GB HBM3" */
  char uuid[64];    /* tells devices apart; their numbers may differ by process */
  char address[32]; /* on the PCI bus */
  char driver[32];  /* version of the driver, "13.0" */
} byteps_device_info;

/* Says what a device is. Needs no session: `settings` are those of byteps_open. Takes no memory of
 * the device. It starts the CUDA driver, which copies of this process, made by fork, cannot use
 * then. May wait for the driver. BYTEPS_UNAVAILABLE: no device can be used; `error` has the reason.
 * BYTEPS_INVALID_ARGUMENT: there is no device of this number. */
BYTEPS_API byteps_code byteps_get_device_info(const char* const* settings, size_t count,
                                              int32_t device, byteps_device_info* info,
                                              byteps_error* error);

/* Written by byteps_get_nccl_info; the caller sets struct_size. The texts end with a zero. */
typedef struct byteps_nccl_info {
  size_t struct_size BYTEPS_SIZE_OF(byteps_nccl_info);
  int32_t version; /* 22809 is 2.28.9 */
  int32_t reserved;
  char text[32]; /* "2.28.9" */
  char file[512];
} byteps_nccl_info;

/* Says which NCCL this process would use for sums among GPUs, in a job with servers.
 * Needs no session and no GPU; `settings` are those of byteps_open, of which nccl_library counts.
 * Loads NCCL for a moment, if the process has not loaded it. BYTEPS_UNAVAILABLE: there is none that
 * is new enough; `error` has the reason. */
BYTEPS_API byteps_code byteps_get_nccl_info(const char* const* settings, size_t count,
                                            byteps_nccl_info* info, byteps_error* error);

/* Written by byteps_foresee_device_sums; the caller sets struct_size. The text ends with a zero. */
typedef struct byteps_device_sums {
  size_t struct_size BYTEPS_SIZE_OF(byteps_device_sums);
  char text[1016]; /* the way, the reason, and a forecast that nobody has measured */
} byteps_device_sums;

/* Says which way the sums of GPUs take in the job that the environment and `settings` describe,
 * without joining it, and which one would be faster if such jobs had it. It supposes that the
 * rank with local rank i has GPU i of the machine, in the order of the PCI bus. Asks NVML, and may
 * wait for NVIDIA's driver. BYTEPS_UNAVAILABLE: NVML does not tell; `error` has the reason. */
BYTEPS_API byteps_code byteps_foresee_device_sums(const char* const* settings, size_t count,
                                                  byteps_device_sums* sums, byteps_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* BYTEPS_DEVICE_H_ */
