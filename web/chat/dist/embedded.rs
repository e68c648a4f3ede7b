// Written by web/chat/build.js.
const ASSETS: &[Asset] = &[
    Asset {
        name: "assets/index-DPAIqjz_.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "5e0b96ae932c43e8",
        plain: include_bytes!("assets/index-DPAIqjz_.js"),
        gzip: include_bytes!("assets/index-DPAIqjz_.js.gz"),
        brotli: include_bytes!("assets/index-DPAIqjz_.js.br"),
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
        tag: "8dadc09f9c672397",
        plain: include_bytes!("index.html"),
        gzip: include_bytes!("index.html.gz"),
        brotli: include_bytes!("index.html.br"),
    },
];
