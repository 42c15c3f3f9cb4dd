#include <iostream>
#include <string>
#include <vector>

#include "client/hpctl/hpctl.h"

int main(int argc, char** argv) {
  return hugepool::hpctl::RunHpctl(
      std::vector<std::string>(argv + 1, argv + argc), std::cout, std::cerr);
}
