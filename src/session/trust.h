// What keeps strangers out of a job, and what follows from it. It is computed from options that all
// processes of the job have alike.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/log.h"
#include "src/base/status.h"
#include "src/config/options.h"

namespace byteps::session {

// What every process proves to the others before they believe it anything. The numbers are those of
// byteps_proof.
enum class JobProof : uint8_t {
  kNone = 0,    // nothing: a process that reaches a port of the job can join it
  kSecret = 1,  // that it knows the job's secret
  // That it belongs to the same user of the same machine: the kernel says so of the other end of a
  // Unix socket, and of the other end of a connection over a loopback address.
  kOneUser = 2,
};

JobProof ProofOf(const config::Options& options);

// Whether the program of this worker may unpickle what other ranks send: who sends an object can
// run code. The same on all workers (wire::Join).
bool TakesObjects(const config::Options& options);

// Warns of a job that strangers can join, or refuses it if the user wants that.
Status CheckProof(const config::Options& options, Log& log);

}  // namespace byteps::session
