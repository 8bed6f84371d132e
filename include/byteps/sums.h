/* byteps: the C interface for what the bits of sums depend on. `bps docs rationale` has the rule,
 * and byteps_result.flags says it of one result.
 */
#ifndef BYTEPS_SUMS_H_
#define BYTEPS_SUMS_H_

#include "byteps/byteps.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names what the bits of sums depend on, beside ranks and their inputs. Averages and products are
 * sums, too. A later one includes the earlier ones. */
typedef enum byteps_sum_bits {
  BYTEPS_SUM_BITS_RANKS = 0,    /* nothing else: every layout gives the same bits */
  BYTEPS_SUM_BITS_MACHINES = 1, /* of float16 and bfloat16: on which ranks share a machine */
  BYTEPS_SUM_BITS_PLACEMENT = 2 /* of all floats: on the places of ranks on machines */
} byteps_sum_bits;

/* Written by byteps_get_sums; the caller sets struct_size. */
typedef struct byteps_sums {
  size_t struct_size BYTEPS_SIZE_OF(byteps_sums);
  byteps_sum_bits bits;
  char text[508]; /* the same as a sentence, with what to do if that is not wanted */
} byteps_sums;

/* Writes what the bits of sums depend on in the job as it is now. */
BYTEPS_API byteps_code byteps_get_sums(byteps_session* session, byteps_sums* sums,
                                       byteps_error* error);
/* Writes the same of the job that the environment and `settings` describe, without joining it. The
 * first machine has the first ranks, and so on. */
BYTEPS_API byteps_code byteps_foresee_sums(const char* const* settings, size_t count,
                                           byteps_sums* sums, byteps_error* error);

#ifdef __cplusplus
}
#endif

#endif /* BYTEPS_SUMS_H_ */
