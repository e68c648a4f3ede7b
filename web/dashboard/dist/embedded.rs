// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-DRVsQsEb.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "432a44193fd4d319",
        plain: include_bytes!("assets/index-DRVsQsEb.js"),
        gzip: include_bytes!("assets/index-DRVsQsEb.js.gz"),
        brotli: include_bytes!("assets/index-DRVsQsEb.js.br"),
    },
    Asset {
        name: "assets/style-DnuHq4Gy.css",
        content_type: "text/css; charset=utf-8",
        tag: "654a3d578eabe53b",
        plain: include_bytes!("assets/style-DnuHq4Gy.css"),
        gzip: include_bytes!("assets/style-DnuHq4Gy.css.gz"),
        brotli: include_bytes!("assets/style-DnuHq4Gy.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "431174bd40b2ff39",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
