#include "api/call_text.h"

#include <boost/json.hpp>

namespace pagoda {

bool CallText::says_the_same(const CallText& other) const {
  if (name != other.name) return false;
  if (arguments == other.arguments) return true;
  boost::system::error_code error, other_error;
  const boost::json::value own = boost::json::parse(arguments, error);
  const boost::json::value theirs = boost::json::parse(other.arguments, other_error);
  return !error && !other_error && own == theirs;
}

}  // namespace pagoda
