//! The names under which directives are counted as enabled: of those that handle queries.

use crate::admin::{PluginEnabled, SeriesLabels};
use crate::corefile::settings::ServerBlock;

/// Those of a block, in the order of execution.
pub fn of(block: &ServerBlock) -> Vec<&'static str> {
    let all = [
        (block.metadata.is_some(), "metadata"),
        (block.cancel.is_some(), "cancel"),
        (block.nsid.is_some(), "nsid"),
        (block.bufsize.is_some(), "bufsize"),
        (block.prometheus.is_some(), "prometheus"),
        (block.errors.is_some(), "errors"),
        (!block.log.is_empty(), "log"),
        (block.local.is_some(), "local"),
        (block.dns64.is_some(), "dns64"),
        (block.any, "any"),
        (block.chaos.is_some(), "chaos"),
        (block.loadbalance.is_some(), "loadbalance"),
        (!block.rewrite.is_empty(), "rewrite"),
        (block.autopath.is_some() || block.pod_autopath.is_some(), "autopath"),
        (!block.acl.is_empty(), "acl"),
        (block.cache.is_some(), "cache"),
        (block.header.is_some(), "header"),
        (block.minimal, "minimal"),
        (!block.template.is_empty(), "template"),
        (!block.transfer.is_empty(), "transfer"),
        (block.hosts.is_some(), "hosts"),
        (block.k8s_external.is_some(), "k8s_external"),
        (block.kubernetes.is_some(), "kubernetes"),
        (!block.file.is_empty(), "file"),
        (block.auto.is_some(), "auto"),
        (!block.secondary.is_empty(), "secondary"),
        (!block.etcd.is_empty(), "etcd"),
        (block.detects_loops.is_some(), "loop"),
        (!block.forward.is_empty(), "forward"),
        (!block.proxy.is_empty(), "proxy"),
        (block.whoami, "whoami"),
        (block.view.is_some(), "view"),
    ];
    all.into_iter()
        .filter_map(|(is_there, name)| is_there.then_some(name))
        .collect()
}

/// One of them, in one place.
pub fn enabled(series: &SeriesLabels, name: &'static str) -> PluginEnabled {
    let SeriesLabels { server, zone, view } = series.clone();
    PluginEnabled {
        server,
        zone,
        view,
        name,
    }
}
