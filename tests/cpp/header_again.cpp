#include <dpb_fleet.hpp>

dpb::Bandit elsewhere();

dpb::Bandit elsewhere() { return dpb::Bandit(dpb::Config(2, 1.0)); }
