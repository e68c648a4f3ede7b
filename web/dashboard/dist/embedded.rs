// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-KGttBlGR.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "309b946b436f7030",
        plain: include_bytes!("assets/index-KGttBlGR.js"),
        gzip: include_bytes!("assets/index-KGttBlGR.js.gz"),
        brotli: include_bytes!("assets/index-KGttBlGR.js.br"),
    },
    Asset {
        name: "assets/style-CfQbR8ir.css",
        content_type: "text/css; charset=utf-8",
        tag: "da8799a9cea30558",
        plain: include_bytes!("assets/style-CfQbR8ir.css"),
        gzip: include_bytes!("assets/style-CfQbR8ir.css.gz"),
        brotli: include_bytes!("assets/style-CfQbR8ir.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "41167450a0552d71",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
