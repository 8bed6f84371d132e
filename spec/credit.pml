/* Credit and recovery: the data plane with two pieces and a credit of one, so that each worker may
 * have one piece between push and answer. Workers push in any order, as ranks that submit tensors
 * in different order do; wants (data_shard.pml) keep that from hanging.
 */
#ifndef NP
#define NP 2
#endif
#ifndef CREDIT
#define CREDIT 1
#endif
#include "data_plane.pml"
