#pragma once
// CitationFilter: removes Cohere's citation tags from text that arrives in pieces: "<co>bar</co: 0:[1,2]>" ->
// "bar". Threads: none.
#include <functional>
#include <string>
#include <string_view>

namespace pagoda::answer {

class CitationFilter {
 public:
  using Sink = std::function<void(std::string_view)>;

  void push(std::string_view text, const Sink& out);
  void finish(const Sink& out);  // passes on text that looked like the start of a tag

 private:
  std::string held_;  // begins with '<', or is empty
};

}  // namespace pagoda::answer
