// Written by web/dashboard/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-rHU_5R3W.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "3e4d4795e48840a5",
        plain: include_bytes!("assets/index-rHU_5R3W.js"),
        gzip: include_bytes!("assets/index-rHU_5R3W.js.gz"),
        brotli: include_bytes!("assets/index-rHU_5R3W.js.br"),
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
        tag: "e61c6ba496029def",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
