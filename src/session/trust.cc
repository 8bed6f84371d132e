#include "src/session/trust.h"

#include "src/transport/address.h"

namespace byteps::session {
namespace {

// Returns whether this process has ports. A worker that is alone, or whose job is in the memory of
// one machine, has none.
bool HasPorts(const config::Options& options) {
  return options.role != Role::kWorker || config::IsDistributed(options);
}

}  // namespace

JobProof ProofOf(const config::Options& options) {
  if (!options.job_secret.empty()) return JobProof::kSecret;
  const bool local = !HasPorts(options) || transport::IsLoopbackHost(options.root_host);
  return local ? JobProof::kOneUser : JobProof::kNone;
}

bool TakesObjects(const config::Options& options) {
  return options.allow_objects || ProofOf(options) != JobProof::kNone;
}

Status CheckProof(const config::Options& options, Log& log) {
  if (ProofOf(options) != JobProof::kNone) return Status::Ok();
  const std::string what = "this job has no secret, and its scheduler (" +
                           config::RootAddress(options) +
                           ") is not on a loopback address. Every process that can reach the job's "
                           "ports can join it";
  const std::string advice =
      "set BYTEPS_JOB_SECRET to the same value for all its processes "
      "(openssl rand -hex 16 makes one)";
  if (options.require_secret) {
    return {StatusCode::kInvalidArgument,
            what + ", and BYTEPS_REQUIRE_SECRET forbids that: " + advice};
  }
  if (options.role == Role::kCoordinator) log.Warning("{}; {}", what, advice);
  return Status::Ok();
}

}  // namespace byteps::session
