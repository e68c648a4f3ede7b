// Written by web/chat/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-D_dBa-xQ.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "b66c54fd3d766bb5",
        plain: include_bytes!("assets/index-D_dBa-xQ.js"),
        gzip: include_bytes!("assets/index-D_dBa-xQ.js.gz"),
        brotli: include_bytes!("assets/index-D_dBa-xQ.js.br"),
    },
    Asset {
        name: "assets/style-x26SxfVj.css",
        content_type: "text/css; charset=utf-8",
        tag: "86e838fbcfa92eb0",
        plain: include_bytes!("assets/style-x26SxfVj.css"),
        gzip: include_bytes!("assets/style-x26SxfVj.css.gz"),
        brotli: include_bytes!("assets/style-x26SxfVj.css.br"),
    },
    Asset {
        name: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "0e4097645383f50d",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
