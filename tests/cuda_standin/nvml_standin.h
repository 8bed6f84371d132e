/* Functions by which tests tell the stand-in for NVML which machine it shows. The stand-in is a
 * library with the C names of NVML. It is built for tests only, and its GPUs say that they are
 * stand-ins. GPU i is the one that the stand-in for the CUDA driver has under this number. It shows
 * nothing of what the real library takes to start, and knows no GPU. */
#pragma once

#define STAND_IN_NVML_GPUS_MAX 16

#ifdef __cplusplus
extern "C" {
#endif

/* Shows two GPUs that do not reach each other, and lets no function fail. */
void stand_in_nvml_reset(void);

/* Shows so many GPUs; how each of them reaches each other one, in NVML's numbers: the status of
 * reading and writing, and that of NVLink. */
void stand_in_nvml_machine(unsigned gpus, int peers, int nvlink);

/* Cuts a GPU into parts. */
void stand_in_nvml_cut(unsigned gpu);

/* Lets a function return this error from now on. */
void stand_in_nvml_fail(const char* function, int code);

/* Returns how often the library was started and not ended. */
int stand_in_nvml_started(void);

#ifdef __cplusplus
} /* extern "C" */
#endif
