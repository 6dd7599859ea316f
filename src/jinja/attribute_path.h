#pragma once
// AttributePath: the `attribute=` argument of filters: "a.b.0", or an integer. Each part is looked up as by
// [].
#include <optional>
#include <vector>

#include "jinja/render.h"

namespace pagoda::jinja {

class AttributePath {
 public:
  AttributePath(Render& render, const Value& attribute);  // None: the item itself

  // Returns `fallback`, if given, in place of anything undefined on the path.
  Value get(Render& render, const Value& item, const Value* fallback = nullptr) const;

 private:
  std::vector<Value> parts_;
};

Value ignore_case(Render& render, const Value& value);  // lowercases strings; returns other values unchanged

}  // namespace pagoda::jinja
