/** A profile as a picture. */
import type { StepFigures } from './figures.js'

const WIDTH = 640
const LABEL = 170
const ROW = 22
const TOP = 52
/** Operators in the picture; the others are one bar. */
const MOST_BARS = 14

const STYLE = [
  'text{font:12px system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif;fill:#1f2328}',
  '.b{fill:#fff}.t{font-weight:600}.all{fill:#9ecbff}.peak{fill:#0969da}.part{fill:#d8b98a}',
  '@media(prefers-color-scheme:dark){text{fill:#e6edf3}.b{fill:#0d1117}',
  '.all{fill:#1f4b7a}.peak{fill:#58a6ff}.part{fill:#7d5a22}}',
].join('')

interface Bar {
  readonly name: string
  readonly milliseconds: number
  /** The least time by the roofline; undefined for what is no operator. */
  readonly peakMs: number | undefined
}

const barsOf = ({ operators, parts }: StepFigures): readonly Bar[] => {
  const rest = operators.slice(MOST_BARS)
  const others: Bar = {
    name: `${rest.length} others`,
    milliseconds: rest.reduce((total, { milliseconds }) => total + milliseconds, 0),
    peakMs: rest.reduce((total, { peakMs }) => total + peakMs, 0),
  }
  return [
    ...operators
      .slice(0, MOST_BARS)
      .map(({ operator: name, milliseconds, peakMs }) => ({ name, milliseconds, peakMs })),
    ...(rest.length === 0 ? [] : [others]),
    ...parts.map((part) => ({ ...part, peakMs: undefined })),
  ]
}

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

/**
 * Draws a bar for each operator, with its least time at the machine's peaks, and for other parts.
 */
export const profilePicture = (figures: StepFigures, title: string): string => {
  const bars = barsOf(figures)
  const longest = Math.max(...bars.map(({ milliseconds }) => milliseconds))
  const width = (milliseconds: number): string =>
    (((WIDTH - LABEL - 90) * Math.max(0, milliseconds)) / longest).toFixed(1)
  const height = TOP + ROW * bars.length + 12
  const drawn = bars.map(({ name, milliseconds, peakMs }, i) => {
    const y = TOP + ROW * i
    const bar = (kind: string, length: string): string =>
      `<rect class="${kind}" x="${LABEL}" y="${y}" width="${length}" height="${ROW - 6}"/>`
    const end = LABEL + Number(width(milliseconds)) + 6
    return [
      `<text x="${LABEL - 8}" y="${y + 12}" text-anchor="end">${escaped(name)}</text>`,
      bar(peakMs === undefined ? 'part' : 'all', width(milliseconds)),
      ...(peakMs === undefined ? [] : [bar('peak', width(Math.min(peakMs, milliseconds)))]),
      `<text x="${end}" y="${y + 12}">${milliseconds.toFixed(1)} ms</text>`,
    ].join('')
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img">`,
    `<style>${STYLE}</style><rect class="b" width="${WIDTH}" height="${height}"/>`,
    `<text class="t" x="12" y="20">${escaped(title)}</text>`,
    `<text x="12" y="38">Dark: the least time at the machine's peaks of arithmetic and memory.</text>`,
    ...drawn,
    '</svg>',
    '',
  ].join('\n')
}
