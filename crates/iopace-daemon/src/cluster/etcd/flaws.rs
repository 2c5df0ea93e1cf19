//! Versions of etcd of which something is known to be wrong.

/// The first patches of the series whose leader, when it has hung while another one was elected,
/// ends no leases that are renewed there (etcd's changelog, "leases wrongly revoked by the
/// leader").
const GOOD_PATCHES: [(u64, u64, u64); 2] = [(3, 4, 31), (3, 5, 13)];

/// What is wrong with a version of etcd, if something is.
pub(super) fn flaw_of(version: &str) -> Option<String> {
    let mut numbers = version.split('.').map_while(|number| number.parse::<u64>().ok());
    let [major, minor, patch] = [numbers.next()?, numbers.next()?, numbers.next()?];
    let is_bad =
        |(of, series, good): (u64, u64, u64)| (major, minor) == (of, series) && patch < good;
    GOOD_PATCHES.into_iter().any(is_bad).then(|| {
        let good = GOOD_PATCHES.map(|(major, minor, patch)| format!("{major}.{minor}.{patch}"));
        format!(
            "etcd {version} may end the leases of hosts when its leader has hung, and a limit may \
             be exceeded then: take {} or later",
            good.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_whose_leases_may_end_wrongly_is_told_of() {
        for good in ["3.4.31", "3.4.35", "3.5.13", "3.5.21", "3.6.0", "4.0.0-rc.0", "3.6", ""] {
            assert_eq!(flaw_of(good), None, "{good}");
        }
        for bad in ["3.4.0", "3.4.23", "3.5.12"] {
            let told = flaw_of(bad).expect(bad);
            assert!(told.contains(bad) && told.contains("3.4.31, 3.5.13 or later"), "{told}");
        }
    }
}
