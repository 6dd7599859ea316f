#pragma once
// CallText: a tool call as the model writes it, compared by meaning with another call. Threads: none.
#include <string>

namespace pagoda {

struct CallText {
  std::string name, arguments;  // arguments: JSON, unless the model wrote something else

  // True if `other` calls the same tool with the same arguments, regardless of spacing, escapes and order.
  bool says_the_same(const CallText& other) const;
};

}  // namespace pagoda
