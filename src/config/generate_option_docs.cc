// Writes docs/environment.md to the standard output.
#include <cstdio>
#include <string>

#include "src/config/option_text.h"

int main() {
  const std::string page = byteps::config::OptionsPage();
  const bool written = std::fwrite(page.data(), 1, page.size(), stdout) == page.size();
  return written && std::fflush(stdout) == 0 ? 0 : 1;
}
