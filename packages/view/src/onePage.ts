/** The run viewer as one HTML page that opens without a server. */
import { type Digest, pagePolicy, scriptJson } from '@tandem-rl/base'
import { oneScript } from './oneScript.js'
import type { EmbeddedData } from './protocol.js'

/** Files of the page, uPlot's `uPlot.esm.js` and `uPlot.min.css` included. */
export type PageFiles = Readonly<Record<string, string>>

const dataAddress = (type: string, text: string): string =>
  `data:${type};base64,${Buffer.from(text, 'utf8').toString('base64')}`

const STYLES = ['uPlot.min.css', 'base.css', 'layout.css', 'run.css', 'rollouts.css', 'model.css']

/**
 * Renders the page with embedded data. Styles and scripts are inlined. The page's policy allows
 * them by their hash, no other script, and no network request.
 *
 * Errors   throws RangeError if a file of the page is missing.
 */
export const onePage = (files: PageFiles, data: EmbeddedData, digest: Digest): string => {
  const textOf = (name: string): string => {
    const text = files[name]
    if (text === undefined) throw new RangeError(`files: expected a file '${name}' of the page, got none`)
    return text
  }
  const styles = STYLES.map(textOf).join('\n')
  const [theme, script] = [textOf('theme.js'), oneScript(files, 'main.js')]
  const policy = pagePolicy(digest, { scripts: [theme, script], styles: [styles] })
  const tags: readonly (readonly [string, string])[] = [
    [
      '<meta charset="utf-8" />',
      `<meta charset="utf-8" /><meta http-equiv="Content-Security-Policy" content="${policy}" />`,
    ],
    ['href="assets/icon.svg"', `href="${dataAddress('image/svg+xml', textOf('icon.svg'))}"`],
    ...STYLES.map(
      (name, i) =>
        [`<link rel="stylesheet" href="assets/${name}" />`, i === 0 ? `<style>${styles}</style>` : ''] as const,
    ),
    ['<script src="assets/theme.js"></script>', `<script>${theme}</script>`],
    ['<script type="module" src="assets/main.js"></script>', ''],
    [
      '</body>',
      `<script type="application/json" id="data">${scriptJson(data)}</script>` +
        `<script type="module">${script}</script></body>`,
    ],
  ]
  return tags.reduce((page, [tag, inlined]) => {
    if (!page.includes(tag)) throw new RangeError(`files: expected ${tag} in index.html`)
    return page.replace(tag, () => inlined)
  }, textOf('index.html'))
}
