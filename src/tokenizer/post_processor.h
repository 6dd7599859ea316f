#pragma once
// PostProcessor: what add_special_tokens puts around one encoded text. Pairs of texts are not a server's
// business and are left out.
#include <span>
#include <vector>

#include "request/ids.h"

namespace pagoda {

class PostProcessor {
 public:
  struct Wrap {
    std::vector<TokenId> before, after;
  };
  void add(Wrap wrap) { wraps_.push_back(std::move(wrap)); }  // inner ones first
  void clear() { wraps_.clear(); }

  void apply(std::vector<TokenId>& ids) const {
    for (const Wrap& wrap : wraps_) {
      ids.insert(ids.begin(), wrap.before.begin(), wrap.before.end());
      ids.insert(ids.end(), wrap.after.begin(), wrap.after.end());
    }
  }

 private:
  std::vector<Wrap> wraps_;
};

}  // namespace pagoda
