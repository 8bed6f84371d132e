#include "src/protocol/never_complete.h"

namespace byteps::protocol {

Status ErrorOfLeftRank(uint32_t rank) {
  return {StatusCode::kPeerLost,
          "worker " + std::to_string(rank) +
              " has left the job; operations it does not take part in cannot complete (where "
              "ranks have different numbers of batches, each ends with join)"};
}

Status ErrorOfJoinedRoot(const std::string& ranks) {
  return {StatusCode::kInvalidArgument,
          "nobody brings the bytes, because rank " + ranks +
              " has joined: it has no more data; a rank that has joined cannot be the root"};
}

}  // namespace byteps::protocol
