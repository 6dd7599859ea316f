#include "constraint/string_formats.h"

#include <algorithm>
#include <iterator>

namespace pagoda {
namespace {

// Calendar dates.
const std::string kYear = "([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)";
const std::string kLeapYear = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)";
const std::string kDate = kYear +
                          "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
                          "|02-(0[1-9]|1[0-9]|2[0-8]))|" +
                          kLeapYear + "-02-29";
const std::string kTime =
    "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
const std::string kWholeDate = "^(" + kDate + ")$";
const std::string kWholeTime = "^" + kTime + "$";
const std::string kDateTime = "^(" + kDate + ")T" + kTime + "$";
const std::string kDuration =
    "^P(([0-9]+D|[0-9]+M([0-9]+D)?|[0-9]+Y([0-9]+M([0-9]+D)?)?)(T([0-9]+S|[0-9]+M([0-9]+S)?|[0-9]+H([0-9]+M(["
    "0-9]+S)?)?))?"
    "|T([0-9]+S|[0-9]+M([0-9]+S)?|[0-9]+H([0-9]+M([0-9]+S)?)?)|[0-9]+W)$";

const std::string kIpv4 =
    "((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])[.]){3}"
    "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])";
const std::string kGroup = "[0-9a-fA-F]{1,4}";
std::string ipv6() {
  std::string out = "(" + kGroup + ":){7}" + kGroup + "|(" + kGroup + ":){1,7}:|:((:" + kGroup + "){1,7}|:)";
  for (int before = 1; before <= 6; ++before)
    out += "|(" + kGroup + ":){1," + std::to_string(before) + "}(:" + kGroup + "){1," +
           std::to_string(7 - before) + "}";
  return "(" + out + "|(" + kGroup + ":){6}" + kIpv4 + "|::(ffff:)?" + kIpv4 + ")";
}
const std::string kIpv6 = ipv6();
const std::string kWholeIpv4 = "^" + kIpv4 + "$", kWholeIpv6 = "^" + kIpv6 + "$";

// Names of up to 253 characters, in labels of up to 63 without "--", which would need further checks.
const std::string kHostname =
    "^((([A-Za-z0-9]-?){0,30}[A-Za-z0-9][.]){0,3}([A-Za-z0-9]-?){0,30}[A-Za-z0-9]"
    "|(([A-Za-z0-9]-?){0,13}[A-Za-z0-9][.]){4,7}([A-Za-z0-9]-?){0,13}[A-Za-z0-9])$";
const std::string kEmail =
    "^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+([.][A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@"
    "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$";

// Addresses of RFC 3986, or 3987 with characters beyond ASCII.
std::string address(bool relative, const std::string& beyond) {
  const std::string hex = "%[0-9A-Fa-f]{2}", plain = "A-Za-z0-9._~!$&'()*+,;=" + beyond;
  const auto any = [&](const std::string& more) { return "([" + plain + more + "-]|" + hex + ")"; };
  const std::string segments = "(/" + any(":@") + "*)*";
  const std::string authority =
      "//(" + any(":") + "*@)?(" + any("") + "*|\\[" + kIpv6 + "\\])(:[0-9]*)?" + segments;
  const std::string absolute = "/(" + any(":@") + "+" + segments + ")?";
  const auto path = [&](const std::string& first) {
    return "(" + authority + "|" + absolute + "|" + any(first) + "+" + segments + ")?";
  };
  const std::string end = "([?]" + any(":@/?") + "*)?(#" + any(":@/?") + "*)?";
  const std::string whole = "[A-Za-z][A-Za-z0-9+.-]*:" + path(":@");
  return "^(" + whole + (relative ? "|" + path("@") : "") + ")" + end + "$";
}
const std::string kBeyondAscii = "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF";
const std::string kUri = address(false, ""), kUriReference = address(true, "");
const std::string kIri = address(false, kBeyondAscii), kIriReference = address(true, kBeyondAscii);
const std::string kVariable =
    "([A-Za-z0-9_]|%[0-9A-Fa-f]{2})([.]?([A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*([*]|:[1-9][0-9]{0,3})?";
const std::string kUriTemplate = "^([A-Za-z0-9!#$&()*+,./:;=?@_~\\[\\]-]|%[0-9A-Fa-f]{2}|[{][+#./;?&]?" +
                                 kVariable + "(," + kVariable + ")*[}])*$";

// Regular expressions without escapes, which all dialects interpret alike.
const std::string kAtom = "([A-Za-z0-9 _@#%&=:;,<>!~/]|[.]|\\[\\^?([A-Za-z0-9_ ]|a-z|A-Z|0-9)+\\])[*+?]?";
const std::string kRegex = "^\\^?(" + kAtom + "|[(](" + kAtom + ")+([|](" + kAtom + ")+)*[)][*+?]?)*[$]?$";

const StringFormat kFormats[] = {
    {"date", kWholeDate},
    {"time", kWholeTime},
    {"date-time", kDateTime},
    {"duration", kDuration, "^P[0-9]+[DWMY]$"},
    {"ipv4", kWholeIpv4},
    {"ipv6", kWholeIpv6, "^[0-9a-f]{1,4}(:[0-9a-f]{1,4}){7}$"},
    {"hostname", kHostname, "^[a-z0-9]([a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([a-z0-9]{0,61}[a-z0-9])?)*$"},
    {"idn-hostname", kHostname, "^[a-z0-9]([a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([a-z0-9]{0,61}[a-z0-9])?)*$"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
    {"uri", kUri,
     "^[a-z]{2,8}://[A-Za-z0-9]+([.-][A-Za-z0-9]+)*(:[0-9]{1,4})?(/[A-Za-z0-9._~!$&()*+,;=:@/?-]*)?$"},
    {"iri", kIri,
     "^[a-z]{2,8}://[A-Za-z0-9]+([.-][A-Za-z0-9]+)*(:[0-9]{1,4})?(/[A-Za-z0-9._~!$&()*+,;=:@/?-]*)?$"},
    {"uri-reference", kUriReference, "^/[A-Za-z0-9._~!$&()*+,;=:@-][A-Za-z0-9._~!$&()*+,;=:@/?-]*$"},
    {"iri-reference", kIriReference, "^/[A-Za-z0-9._~!$&()*+,;=:@-][A-Za-z0-9._~!$&()*+,;=:@/?-]*$"},
    {"uri-template", kUriTemplate, "^[A-Za-z0-9._/-]*([{][a-z]+[}][A-Za-z0-9._/-]*)*$"},
    {"email", kEmail},
    {"idn-email", kEmail},
    {"json-pointer", "^(/([^/~]|~[01])*)*$"},
    {"relative-json-pointer", "^(0|[1-9][0-9]*)(#|(/([^/~]|~[01])*)*)$"},
    {"regex", kRegex, "^[A-Za-z0-9 ]*$"}};

}  // namespace

const StringFormat* string_format(std::string_view name) {
  const auto known = std::ranges::find(kFormats, name, &StringFormat::name);
  return known == std::end(kFormats) ? nullptr : &*known;
}

}  // namespace pagoda
