// A TCP port on which a job shows its state: to whoever connects and says nothing (`nc`), and over
// HTTP. It only tells; nothing that comes in changes anything. Over HTTP it answers only if it is
// asked by an address or by a name of its machine (status_request.h).
//
// Anybody who reaches the port may read it, so it listens on the loopback address if its owner does
// not wish otherwise. It has a thread of its own, and a bound for everything: connections, bytes of
// a request, and time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/runtime/seeing/status_request.h"

namespace byteps::runtime {

class StatusPort {
 public:
  struct Content {
    bool found = true;
    std::string_view type;  // of the text, as HTTP names it
    std::string text;
  };
  // What is at this path ("/" for a connection that says nothing). Called on the port's thread; may
  // block for a moment.
  using Look = std::function<Content(const std::string& path)>;

  static constexpr size_t kConnectionsMax = 16;
  // Who has not asked by then says nothing.
  static constexpr Duration kAskLimit = milliseconds(300);
  // From the first byte of the answer to the last.
  static constexpr Duration kReadLimit = seconds(5);

  // `address`: "host:port"; port 0: any free one. kUnavailable: it cannot be had.
  static Result<std::unique_ptr<StatusPort>> Start(const std::string& address, Look look);
  // Closes the port.
  ~StatusPort();
  StatusPort(const StatusPort&) = delete;
  StatusPort& operator=(const StatusPort&) = delete;

  const std::string& address() const { return address_; }  // with the port that was bound

 private:
  // Somebody who asks, and then reads.
  struct Guest {
    int socket = -1;
    Time until{};
    StatusRequest request;
    std::string answer;  // empty: it has not asked yet
    size_t sent = 0;
  };

  StatusPort(int listener, int stop, std::string address, std::vector<std::string> names,
             Look look);
  void Run();
  void Accept(Time now);
  bool Serve(Guest& guest, bool event, Time now);
  bool Read(Guest& guest, Time now);
  bool Write(Guest& guest) const;
  void Answer(Guest& guest, Time now);
  std::string AnswerTo(const StatusRequest& request) const;

  const int listener_;
  const int stop_;  // an eventfd
  const std::string address_;
  const std::vector<std::string> names_;  // of this machine
  const Look look_;
  // Not before: there was no descriptor for whoever waits. The port's thread only.
  Time accept_at_{};
  std::vector<Guest> guests_;  // the port's thread only
  std::thread thread_;
};

}  // namespace byteps::runtime
