// Decides how a job keeps strangers out, and what follows from that. It depends only on options
// that are equal on all processes of the job.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/log.h"
#include "src/base/status.h"
#include "src/config/options.h"

namespace byteps::session {

// The fact that every process proves to the others before they trust it. The numbers are those of
// byteps_proof.
enum class JobProof : uint8_t {
  kNone = 0,    // nothing: any process that reaches a port of the job can join it
  kSecret = 1,  // it knows the job's secret
  // It belongs to the same user of the same machine. The kernel tells that for the other end of a
  // Unix socket, and of a connection over a loopback address.
  kOneUser = 2,
};

JobProof ProofOf(const config::Options& options);

// Returns whether the program of this worker may unpickle objects of other ranks, which can run
// code. The same on all workers (wire::Join).
bool TakesObjects(const config::Options& options);

// Warns about a job that strangers can join, or refuses it if the options ask for that.
Status CheckProof(const config::Options& options, Log& log);

}  // namespace byteps::session
