// A TCP port on which a job shows its state: to a guest that connects and says nothing (`nc`), and
// over HTTP. The port only tells; a request changes nothing. Over HTTP it answers only a request
// for an address or for a name of this machine (status_request.h).
//
// Everybody that reaches the port may read it, so it listens on the loopback address unless its
// owner wishes otherwise. It has a thread of its own, and a bound for everything: connections,
// bytes of a request, and time.
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
  // Returns the content of this path ("/" for a connection that says nothing). Called on the port's
  // thread; may block for a moment.
  using Look = std::function<Content(const std::string& path)>;

  static constexpr size_t kConnectionsMax = 16;
  // After this time without a request the port answers as for the path "/".
  static constexpr Duration kAskLimit = milliseconds(300);
  // The limit from the first byte of the answer to the last.
  static constexpr Duration kReadLimit = seconds(5);

  // `address`: "host:port"; port 0: any free port. kUnavailable: the port cannot listen on the
  // address.
  static Result<std::unique_ptr<StatusPort>> Start(const std::string& address, Look look);
  // Closes the port.
  ~StatusPort();
  StatusPort(const StatusPort&) = delete;
  StatusPort& operator=(const StatusPort&) = delete;

  const std::string& address() const { return address_; }  // with the port that was bound

 private:
  // A connection whose other end asks, and then reads.
  struct Guest {
    int socket = -1;
    Time until{};
    StatusRequest request;
    std::string answer;  // empty: the guest has not asked yet
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
  const std::vector<std::string> names_;  // names of this machine
  const Look look_;
  // The port accepts nobody before this time, because it had no descriptor for a new connection.
  // Used on the port's thread only.
  Time accept_at_{};
  std::vector<Guest> guests_;  // used on the port's thread only
  std::thread thread_;
};

}  // namespace byteps::runtime
