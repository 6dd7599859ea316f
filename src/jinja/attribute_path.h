#pragma once
// AttributePath: the `attribute=` of filters: "a.b.0", or an integer. Each part is looked up as by [].
#include <optional>
#include <vector>

#include "jinja/render.h"

namespace pagoda::jinja {

class AttributePath {
 public:
  AttributePath(Render& render, const Value& attribute);  // None: the item itself

  // `fallback` takes the place of anything undefined on the way.
  Value get(Render& render, const Value& item, const Value* fallback = nullptr) const;

 private:
  std::vector<Value> parts_;
};

Value ignore_case(Render& render, const Value& value);  // strings lower-cased, all else as it is

}  // namespace pagoda::jinja
