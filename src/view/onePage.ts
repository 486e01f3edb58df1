/** The run viewer as one HTML page that opens without a server. */
import { scriptJson } from '../core/html.js'
import type { EmbeddedData } from './protocol.js'

/** Files of the page, uPlot's `uPlot.esm.js` and `uPlot.min.css` included. */
export type PageFiles = Readonly<Record<string, string>>

/** Nothing is fetched: the modules of the page are addresses that hold their own text. */
const POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:"

const dataAddress = (type: string, text: string): string =>
  `data:${type};base64,${Buffer.from(text, 'utf8').toString('base64')}`

/** Modules import each other by the name of the file; in one page, by a name of the import map. */
const importMap = (files: PageFiles): string => {
  const modules = Object.entries(files).filter(([name]) => name.endsWith('.js'))
  const imports = modules.map(([name, text]) => [
    `view/${name}`,
    dataAddress('text/javascript', text.replaceAll("from './", "from 'view/")),
  ])
  return scriptJson({ imports: Object.fromEntries(imports) })
}

/**
 * Renders the page with embedded data. Styles and scripts are inlined, and the page makes no
 * network requests.
 *
 * Errors   throws RangeError if a file of the page is missing.
 */
export const onePage = (files: PageFiles, data: EmbeddedData): string => {
  const textOf = (name: string): string => {
    const text = files[name]
    if (text === undefined) throw new RangeError(`files: expected a file '${name}' of the page, got none`)
    return text
  }
  const tags: readonly (readonly [string, string])[] = [
    [
      '<meta charset="utf-8" />',
      `<meta charset="utf-8" /><meta http-equiv="Content-Security-Policy" content="${POLICY}" />`,
    ],
    ['href="assets/icon.svg"', `href="${dataAddress('image/svg+xml', textOf('icon.svg'))}"`],
    ...['uPlot.min.css', 'base.css', 'layout.css', 'run.css', 'rollouts.css', 'model.css'].map(
      (name) => [`<link rel="stylesheet" href="assets/${name}" />`, `<style>${textOf(name)}</style>`] as const,
    ),
    ['<script src="assets/theme.js"></script>', `<script>${textOf('theme.js')}</script>`],
    ['<script type="module" src="assets/main.js"></script>', ''],
    [
      '</body>',
      `<script type="application/json" id="data">${scriptJson(data)}</script>` +
        `<script type="importmap">${importMap(files)}</script>` +
        '<script type="module">import \'view/main.js\'</script></body>',
    ],
  ]
  return tags.reduce((page, [tag, inlined]) => {
    if (!page.includes(tag)) throw new RangeError(`files: expected ${tag} in index.html`)
    return page.replace(tag, () => inlined)
  }, textOf('index.html'))
}
