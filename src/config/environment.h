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

  // Returns a copy of this process' variables. Only this function of the C++ tree reads them. Must
  // not run while another thread changes them (setenv).
  static Environment OfProcess();

  // Returns the value, or an empty text. An empty variable counts as not set, because shells cannot
  // always unset one.
  std::string_view Get(std::string_view name) const;

  const Variables& variables() const { return variables_; }

 private:
  Variables variables_;
};

}  // namespace byteps::config
