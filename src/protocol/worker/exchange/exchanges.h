// The exchanges that are open at the lanes, and what the lanes have said of each. An exchange is
// over when all its pieces are done and every lane has said so. If the front has withdrawn the
// exchange, it is over when every lane has released the exchange's memory. One thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/base/slot_set.h"
#include "src/base/status.h"
#include "src/base/time.h"
#include "src/protocol/worker/exchange/exchange.h"
#include "src/protocol/worker/exchange/front_rules.h"
#include "src/protocol/worker/exchange/lane_mailing.h"
#include "src/protocol/worker/exchange/operation.h"
#include "src/protocol/worker/exchange/progress.h"

namespace byteps::protocol {

class Exchanges {
 public:
  // An exchange that is over. No lane touches its memory any more.
  struct End {
    OperationId operation = 0;
    bool withdrawn = false;
    // These hold only if the front has not withdrawn the exchange:
    Status status;       // status of the first piece with an error
    Receipt receipt;     // members whose contributions are in all pieces
    bool mixed = false;  // some pieces have more members
  };

  // `lanes` and `rules` must outlive this object.
  Exchanges(LaneMailing& lanes, const FrontRules& rules) : lanes_(lanes), rules_(rules) {}

  // Forgets all exchanges, because a generation begins.
  void Clear() { open_.clear(); }

  // Gives the exchange to every lane. Begin borrows what the exchange points to; it must stay as it
  // is until the exchange is over. Returns the serial of the exchange, which is never 0. If Begin
  // throws, the exchange is not open.
  uint64_t Begin(OperationId operation, const Exchange& exchange);
  // Asks the owners of the pieces to end the exchange in an error, with this reason.
  void Abort(uint64_t serial, const Status& why);
  // Tells the lanes to release the exchange's memory, because the operation ends in an error. If
  // Withdraw returns no value, the exchange is not over yet: OnReleased will say so. REQUIRES: the
  // exchange is open, and the front has not withdrawn it before.
  std::optional<End> Withdraw(uint64_t serial);

  // Takes mail of a lane. Returns a value if an exchange is over with this mail. Mail about an
  // exchange that is over changes nothing.
  std::optional<End> OnPartDone(const to_front::PartDone& mail);
  std::optional<End> OnReleased(const to_front::Released& mail);

  // Returns the latest time of an answer that a lane has named.
  Time now() const { return now_; }

 private:
  struct Open {
    OperationId operation = 0;
    Exchange exchange;  // the lanes keep a pointer to it
    uint32_t attempt = 0;
    ExchangeProgress progress;
    bool withdrawn = false;
    std::vector<bool> released;  // the lanes that have released it, once it is withdrawn
  };
  using Place = std::unordered_map<uint64_t, Open>::iterator;

  bool TryAgainForOneReceipt(Open& open);
  std::optional<End> EndIfReleased(Place place);

  LaneMailing& lanes_;
  const FrontRules& rules_;
  std::unordered_map<uint64_t, Open> open_;  // open exchanges by serial
  uint64_t last_serial_ = 0;
  Time now_{};
};

}  // namespace byteps::protocol
