#pragma once
// CallText: a call of a tool as the model writes it, to tell whether it says the same as another. Threads:
// none.
#include <string>

namespace pagoda {

struct CallText {
  std::string name, arguments;  // arguments: JSON, unless the model wrote something else

  // The same tool with the same arguments, however these are spaced, escaped and ordered.
  bool says_the_same(const CallText& other) const;
};

}  // namespace pagoda
