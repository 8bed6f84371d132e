// The variables of a process, as a value. Everything below the mains and the session gets options,
// not variables; tests make an Environment of their own.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace byteps::config {

class Environment {
 public:
  using Variables = std::map<std::string, std::string, std::less<>>;

  Environment() = default;
  explicit Environment(Variables variables) : variables_(std::move(variables)) {}

  // A copy of this process' variables: the only place of the C++ tree that reads them. Must not
  // run while another thread changes them (setenv).
  static Environment OfProcess();

  // The value, or empty. An empty variable counts as not set: shells cannot always unset one.
  std::string_view Get(std::string_view name) const;

  const Variables& variables() const { return variables_; }

 private:
  Variables variables_;
};

}  // namespace byteps::config
