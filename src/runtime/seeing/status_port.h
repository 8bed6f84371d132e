// Shows the state of a job on a TCP port, and on a local socket. Both answer a guest that connects
// and says nothing (`nc`), and HTTP. They only tell; a request changes nothing. Over HTTP they
// answer only a request for an address or for a name of this machine (status_request.h).
//
// Everybody that reaches the TCP port may read it, so it listens on the loopback address unless its
// owner wishes otherwise. The local socket has an abstract name, which has the user and the process
// in it, so that `bps top` finds it in /proc/net/unix, and which is gone with the process. Only a
// process of this user, or of root, gets an answer there.
//
// StatusPort has a thread of its own, and a bound for everything: connections, bytes of a request,
// and time.
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

struct StatusPlaces {
  std::string address;        // "host:port" of the TCP port; port 0: any free port; empty: none
  bool local_socket = false;  // a wish: where the system has no such socket, there is none
};

class StatusPort {
 public:
  enum class Answer { kFound, kNotFound, kNoAnswer };  // kNoAnswer: the process stands still
  struct Content {
    Answer answer = Answer::kFound;
    std::string_view type;  // of the text, as HTTP names it
    std::string text;
  };
  // Returns the content of this path ("/" for a connection that says nothing). Called on the port's
  // thread; may block for a moment.
  using Look = std::function<Content(const std::string& path)>;

  static constexpr size_t kConnectionsMax = 16;  // of each of the two sockets
  // After this time without a request the port answers as for the path "/".
  static constexpr Duration kAskLimit = milliseconds(300);
  // The limit from the first byte of the answer to the last.
  static constexpr Duration kReadLimit = seconds(5);

  // kUnavailable: the port cannot listen on the address. Null: there is no place at all; the local
  // socket alone is a wish, so it is left out where it cannot be served.
  static Result<std::unique_ptr<StatusPort>> Start(const StatusPlaces& places, Look look);
  // Closes the port.
  ~StatusPort();
  StatusPort(const StatusPort&) = delete;
  StatusPort& operator=(const StatusPort&) = delete;

  // Returns a line for the log: where the state is.
  std::string Where() const;
  // Returns the address with the port that was bound; empty: there is no TCP port.
  const std::string& address() const { return address_; }
  // Returns the name of the local socket, without the zero before it; empty: there is none.
  const std::string& local_name() const { return local_name_; }

 private:
  // The sockets that listen; -1: there is none.
  struct Listeners {
    int port = -1;
    int local = -1;
    std::string address, local_name;
    std::vector<std::string> names;  // of this machine
  };
  // A connection whose other end asks, and then reads.
  struct Guest {
    int socket = -1;
    int listener = -1;
    Time until{};
    StatusRequest request;
    std::string answer;  // empty: the guest has not asked yet
    size_t sent = 0;
  };

  static Result<Listeners> Listen(const StatusPlaces& places);
  StatusPort(Listeners listeners, int stop, Look look);
  void Run();
  void Accept(int listener, Time now);
  bool Serve(Guest& guest, bool event, Time now);
  bool Read(Guest& guest, Time now);
  bool Write(Guest& guest) const;
  void AnswerGuest(Guest& guest, Time now);
  std::string AnswerTo(const StatusRequest& request) const;

  const int port_;
  const int local_;
  const int stop_;  // an eventfd
  const std::string address_;
  const std::string local_name_;
  const std::vector<std::string> names_;  // names of this machine
  const Look look_;
  // The port accepts nobody before this time, because it had no descriptor for a new connection.
  // Used on the port's thread only.
  Time accept_at_{};
  std::vector<Guest> guests_;  // used on the port's thread only
  std::thread thread_;
};

}  // namespace byteps::runtime
