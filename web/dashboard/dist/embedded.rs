// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-Dz3OzMTY.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "d8213aeb1ca673ef",
        plain: include_bytes!("assets/index-Dz3OzMTY.js"),
        gzip: include_bytes!("assets/index-Dz3OzMTY.js.gz"),
        brotli: include_bytes!("assets/index-Dz3OzMTY.js.br"),
    },
    Asset {
        name: "assets/style-DoKEcsFw.css",
        content_type: "text/css; charset=utf-8",
        tag: "8647acaf6e9f7c5d",
        plain: include_bytes!("assets/style-DoKEcsFw.css"),
        gzip: include_bytes!("assets/style-DoKEcsFw.css.gz"),
        brotli: include_bytes!("assets/style-DoKEcsFw.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "f10d6d8bd9280ac0",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
