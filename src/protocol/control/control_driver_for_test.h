// A coordinator's driver that writes down what the coordinator asks of it.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/protocol/control/members/coordinator_driver.h"

namespace byteps::protocol {

class ControlDriver final : public CoordinatorDriver {
 public:
  void Send(ConnectionId to, const wire::Message& message) override {
    sent.emplace_back(to, message);
  }
  void Disconnect(ConnectionId id) override { disconnected.push_back(id); }
  void Report(const std::string& text) override { reports.push_back(text); }
  void Inform(const std::string& text) override { informed.push_back(text); }
  void Finish(const Status& how) override { finished.push_back(how); }

  // Returns the messages of one kind that were sent over this connection.
  template <typename T>
  std::vector<T> To(ConnectionId id) const {
    std::vector<T> found;
    for (const auto& [to, message] : sent) {
      const T* one = std::get_if<T>(&message);
      if (to == id && one != nullptr) found.push_back(*one);
    }
    return found;
  }
  bool Said(const std::string& words) const {
    for (const std::string& line : reports) {
      if (line.find(words) != std::string::npos) return true;
    }
    return false;
  }

  std::vector<std::pair<ConnectionId, wire::Message>> sent;
  std::vector<ConnectionId> disconnected;
  std::vector<std::string> reports;
  std::vector<std::string> informed;
  std::vector<Status> finished;
};

}  // namespace byteps::protocol
