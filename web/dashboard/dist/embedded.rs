// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-Dqe-X7jS.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "9db9dcaf2c1e1570",
        plain: include_bytes!("assets/index-Dqe-X7jS.js"),
        gzip: include_bytes!("assets/index-Dqe-X7jS.js.gz"),
        brotli: include_bytes!("assets/index-Dqe-X7jS.js.br"),
    },
    Asset {
        name: "assets/style-C0c2iWMf.css",
        content_type: "text/css; charset=utf-8",
        tag: "0e1dd3ac2f88fbdd",
        plain: include_bytes!("assets/style-C0c2iWMf.css"),
        gzip: include_bytes!("assets/style-C0c2iWMf.css.gz"),
        brotli: include_bytes!("assets/style-C0c2iWMf.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "67632e065d8489fa",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
