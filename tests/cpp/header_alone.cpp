#include <dpb_fleet.hpp>
#include <dpb.hpp>

dpb::Bandit elsewhere();

int main() { return elsewhere().select().arm < 2 ? 0 : 1; }
