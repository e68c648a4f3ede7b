// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-zY7HJ47p.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "b791bddf1c859b3a",
        plain: include_bytes!("assets/index-zY7HJ47p.js"),
        gzip: include_bytes!("assets/index-zY7HJ47p.js.gz"),
        brotli: include_bytes!("assets/index-zY7HJ47p.js.br"),
    },
    Asset {
        name: "assets/style-eL2-OSrQ.css",
        content_type: "text/css; charset=utf-8",
        tag: "c4621f5756f269e3",
        plain: include_bytes!("assets/style-eL2-OSrQ.css"),
        gzip: include_bytes!("assets/style-eL2-OSrQ.css.gz"),
        brotli: include_bytes!("assets/style-eL2-OSrQ.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "db90e3ddb6a70a29",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
