//! Print: the result for people.

use super::{ClusterResult, Fanout, Kill, Link, Requests, SiteResult};

pub fn print(result: &ClusterResult) {
    let ClusterResult { nodes, sessions, nats, postgres, .. } = result;
    println!("{nodes} nodes, {sessions} sessions, NATS {nats}, PostgreSQL {postgres}");
    result.fanout.iter().for_each(print_fanout);
    result.requests.iter().flatten().for_each(print_requests);
    result.link.iter().for_each(print_link);
    result.kill.iter().for_each(print_kill);
}

fn mib(bytes: &[u64]) -> String {
    bytes.iter().map(|bytes| (bytes >> 20).to_string()).collect::<Vec<_>>().join(" + ")
}

fn print_fanout(fanout: &Fanout) {
    println!();
    println!("One guild, {} deliveries by each site: medians of the rounds", fanout.deliveries);
    println!(
        "{:<22} {:>16} {:>13} {:>11} {:>11} {:>17} {:>15}",
        "", "CPU/delivery µs", "range", "NATS/event", "PG/event", "last socket p50", "p99 ms"
    );
    for site in &fanout.sites {
        let SiteResult { name, cpu_us_per_delivery, cpu_us_range: [least, most], last_socket_ms, .. } = site;
        println!(
            "{name:<22} {cpu_us_per_delivery:>16.2} {:>13} {:>8.0} µs {:>8.0} µs {:>14.1} ms {:>15.1}",
            format!("{least:.2}–{most:.2}"),
            site.nats_cpu_us_per_event,
            site.postgres_cpu_us_per_event,
            last_socket_ms.p50,
            last_socket_ms.p99,
        );
    }
    println!("cluster / one node, PostgreSQL   {:.2} (goal: at most 1.15)", fanout.ratio_to_one_node);
    println!("cluster / one node, SQLite       {:.2}", fanout.ratio_to_sqlite);
    println!(
        "frames per event                 {:.2} of the owner, {:.2} of all nodes; {:.0} bytes each",
        fanout.frames_per_event, fanout.frames_per_event_all, fanout.bytes_per_frame
    );
    for site in &fanout.sites {
        let shown = |all: &[f64], digits| all.iter().map(|us| format!("{us:.digits$}")).collect::<Vec<_>>().join(" + ");
        println!("{:<22} CPU by node {} µs per delivery", site.name, shown(&site.cpu_us_by_node, 2));
        let connect = shown(&site.connect_cpu_us_by_node, 0);
        println!("{:<22} connecting {connect} µs per client, {:.0} bytes between nodes", "", site.connect_bytes);
        println!(
            "{:<22} resident {} MiB, before the clients {}",
            "",
            mib(&site.rss_bytes),
            mib(&site.rss_bytes_before)
        );
    }
    println!(
        "NATS                   resident {} MiB",
        fanout.sites.first().map_or(0, |site| site.nats_rss_bytes >> 20)
    );
}

fn print_requests(requests: &Requests) {
    println!();
    println!("Requests, {}: through another node / the owner {:.2}", requests.kind, requests.ratio);
    for (name, rate) in [("owner", &requests.owner), ("another node", &requests.other)] {
        println!("{name:<22} {:>8.0} per s, p50 {:.2} ms, p99 {:.2} ms", rate.per_s, rate.p50_ms, rate.p99_ms);
    }
}

fn print_link(link: &Link) {
    println!();
    println!("One node's link: {} bytes/s, slow {} bytes/s", link.used_bytes_per_s, link.slow_bytes_per_s);
    println!(
        "guild's worker per event         {:.1} µs, slow {:.1} µs: ratio {:.2} (goal: at most 1.1)",
        link.fast_us_per_event, link.slow_us_per_event, link.ratio
    );
    println!("guild's worker busy              {:.2} %, slow {:.2} %", link.fast_busy_percent, link.slow_busy_percent);
    println!(
        "heard while it was slow          {:.1} % there, {:.1} % elsewhere",
        link.heard_there_percent, link.heard_elsewhere_percent
    );
    println!(
        "heard after it was fast again    {:.1} % there, {:?} ms later",
        link.heard_there_later_percent, link.catch_up_ms
    );
    let ([gone, back], [gone_elsewhere, back_elsewhere]) = (link.outages_there, link.outages_elsewhere);
    println!("GUILD_DELETE, GUILD_CREATE       {gone}, {back} there; {gone_elsewhere}, {back_elsewhere} elsewhere");
    println!("messages dropped by the owner    {}", link.dropped_by_owner);
}

fn print_kill(kill: &Kill) {
    println!();
    println!("kill -9 of the owner: served again after {:?} ms, median {:.0} ms", kill.served_again_ms, kill.median_ms);
}
