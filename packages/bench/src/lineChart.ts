/**
 * Line charts as SVG text: panels side by side with one legend, in colors for light and dark pages.
 */

/** A curve. Points that are not finite are gaps. */
interface Series {
  readonly name: string
  readonly points: readonly (readonly [x: number, y: number])[]
  /** Index of the color. Default: the index of its name in the chart. */
  readonly color?: number
  /** Default `solid`. */
  readonly line?: 'solid' | 'dashed' | 'dotted'
}

/** One pair of axes. */
export interface Panel {
  readonly title: string
  readonly xLabel: string
  readonly yLabel: string
  readonly series: readonly Series[]
  /** Default `linear`. */
  readonly xScale?: 'linear' | 'log'
  /** Default: the span of the points. Points outside are not drawn. */
  readonly xRange?: readonly [low: number, high: number]
  /** Default: slightly more than the span of the points. */
  readonly yRange?: readonly [low: number, high: number]
  /** Thin vertical lines, such as the bounds of a clip range. */
  readonly marks?: readonly number[]
}

export interface LineChart {
  readonly title: string
  /** Text for screen readers. */
  readonly description: string
  readonly panels: readonly Panel[]
  /** Number of panels per row. Default 2. */
  readonly columns?: number
}

const PANEL = { width: 400, height: 240, left: 58, right: 14, top: 30, bottom: 44 } as const
const MARGIN = 8
const LINE_HEIGHT = 18
const LEGEND_LINE = 26
/** Approximate width of a character in the legend. */
const CHARACTER = 6.6

const LIGHT = ['#0969da', '#bc4c00', '#1a7f37', '#8250df', '#bf3989', '#9a6700', '#057a8e', '#57606a'] as const
const DARK = ['#58a6ff', '#f0883e', '#3fb950', '#bc8cff', '#f778ba', '#e3b341', '#39c5cf', '#9da7b3'] as const

/** Colors and fonts. The chart has its own background, so it looks the same on every page. */
const STYLE = [
  'text{font:12px system-ui,-apple-system,Segoe UI,Helvetica,Arial,sans-serif;fill:#1f2328}',
  '.t{font-weight:600}.b{fill:#fff}.g{stroke:#d1d9e0;stroke-width:1}.z{stroke:#818b98;stroke-width:1}',
  '.m{stroke:#818b98;stroke-width:1;stroke-dasharray:2 3}.c{fill:none;stroke-width:2;stroke-linejoin:round}',
  '.dashed{stroke-dasharray:7 4}.dotted{stroke-dasharray:2 3}',
  ...LIGHT.map((color, i) => `.s${i}{stroke:${color}}`),
  '@media(prefers-color-scheme:dark){text{fill:#e6edf3}.b{fill:#0d1117}.g{stroke:#30363d}.z,.m{stroke:#768390}',
  ...DARK.map((color, i) => `.s${i}{stroke:${color}}`),
  '}',
].join('')

type Range = readonly [low: number, high: number]

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

/** Rounds a coordinate to tenths of a pixel. */
const px = (value: number): string => String(Math.round(value * 10) / 10 + 0)

const spanOf = (values: readonly number[]): Range => {
  const finite = values.filter(Number.isFinite)
  const [low, high] = [Math.min(...finite), Math.max(...finite)]
  if (finite.length === 0) return [0, 1]
  return low === high ? [low - 1, high + 1] : [low, high]
}

/** Adds a margin, so that no curve runs along the frame. */
const widened = ([low, high]: Range): Range => [low - 0.04 * (high - low), high + 0.04 * (high - low)]

/** Returns about five round numbers within a range. */
const linearTicks = ([low, high]: Range): readonly number[] => {
  const rough = (high - low) / 5
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough * 0.999)!
  const first = Math.ceil(low / step - 1e-9)
  const count = Math.floor(high / step + 1e-9) - first + 1
  return Array.from({ length: count }, (_, i) => Number(((first + i) * step).toPrecision(12)))
}

/**
 * Returns 1, 2, 3 and 5 times each power of ten within a range, or only the powers if they are
 * many.
 */
const logTicks = ([low, high]: Range): readonly number[] => {
  const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))]
  const powers = Array.from({ length: to - from + 1 }, (_, i) => from + i)
  const digits = to - from > 3 ? [1] : [1, 2, 3, 5]
  return powers
    .flatMap((power) => digits.map((digit) => Number(`${digit}e${power}`)))
    .filter((tick) => tick >= low * 0.999 && tick <= high * 1.001)
}

interface Axes {
  readonly x: (value: number) => number
  readonly y: (value: number) => number
  readonly xTicks: readonly number[]
  readonly yTicks: readonly number[]
}

const INNER = {
  width: PANEL.width - PANEL.left - PANEL.right,
  height: PANEL.height - PANEL.top - PANEL.bottom,
} as const

const axesOf = ({ series, xScale = 'linear', xRange, yRange }: Panel): Axes => {
  const points = series.flatMap((each) => each.points)
  const across = xRange ?? spanOf(points.map(([x]) => x))
  const up = yRange ?? widened(spanOf(points.map(([, y]) => y)))
  if (xScale === 'log' && !(across[0] > 0))
    throw new RangeError(`lineChart: a logarithmic axis begins above 0, got ${across[0]}`)
  const along = xScale === 'log' ? Math.log : (value: number): number => value
  const [left, right] = [along(across[0]), along(across[1])]
  return {
    x: (value) => PANEL.left + ((along(value) - left) / (right - left)) * INNER.width,
    y: (value) => PANEL.top + (1 - (value - up[0]) / (up[1] - up[0])) * INNER.height,
    xTicks: xScale === 'log' ? logTicks(across) : linearTicks(across),
    yTicks: linearTicks(up),
  }
}

/** Returns the path through the points, with a gap at points that are not finite. */
const pathOf = ({ x, y }: Axes, points: Series['points']): string =>
  points
    .map(([across, up], i) => {
      if (!Number.isFinite(across) || !Number.isFinite(up)) return ''
      const before = points[i - 1]
      const joins = before?.every(Number.isFinite) === true
      return `${joins ? 'L' : 'M'}${px(x(across))} ${px(y(up))}`
    })
    .join('')

const line = (kind: string, from: Range, to: Range): string =>
  `<line class="${kind}" x1="${px(from[0])}" y1="${px(from[1])}" x2="${px(to[0])}" y2="${px(to[1])}"/>`

const label = (text: string, [x, y]: Range, attributes: string): string =>
  `<text x="${px(x)}" y="${px(y)}"${attributes}>${escaped(text)}</text>`

const gridOf = (axes: Axes): readonly string[] => {
  const bottom = PANEL.top + INNER.height
  const right = PANEL.left + INNER.width
  return [
    ...axes.xTicks.flatMap((tick) => [
      line('g', [axes.x(tick), PANEL.top], [axes.x(tick), bottom]),
      label(String(tick), [axes.x(tick), bottom + 16], ' text-anchor="middle"'),
    ]),
    ...axes.yTicks.flatMap((tick) => [
      line(tick === 0 ? 'z' : 'g', [PANEL.left, axes.y(tick)], [right, axes.y(tick)]),
      label(String(tick), [PANEL.left - 6, axes.y(tick) + 4], ' text-anchor="end"'),
    ]),
  ]
}

type Style = Required<Pick<Series, 'color' | 'line'>>

const panelText = (panel: Panel, [left, top]: Range, styleOf: (series: Series) => Style): readonly string[] => {
  const axes = axesOf(panel)
  const middle = PANEL.left + INNER.width / 2
  const bottom = PANEL.top + INNER.height
  const height = PANEL.top + INNER.height / 2
  return [
    `<g transform="translate(${px(left)} ${px(top)})">`,
    label(panel.title, [middle, 18], ' class="t" text-anchor="middle"'),
    ...gridOf(axes),
    ...(panel.marks ?? []).map((mark) => line('m', [axes.x(mark), PANEL.top], [axes.x(mark), bottom])),
    label(panel.xLabel, [middle, PANEL.height - 10], ' text-anchor="middle"'),
    label(panel.yLabel, [14, height], ` text-anchor="middle" transform="rotate(-90 14 ${px(height)})"`),
    `<g clip-path="url(#plot)">`,
    ...panel.series.map((series) => {
      const { color, line: kind } = styleOf(series)
      return `<path class="c s${color % LIGHT.length} ${kind}" d="${pathOf(axes, series.points)}"/>`
    }),
    '</g></g>',
  ]
}

interface LegendEntry extends Style {
  readonly name: string
}

/** Places the entries of the legend in rows. */
const legendPlaces = (entries: readonly LegendEntry[], width: number): readonly Range[] => {
  const places: Range[] = []
  let [left, row] = [0, 0]
  for (const { name } of entries) {
    const own = LEGEND_LINE + 22 + name.length * CHARACTER
    if (left > 0 && left + own > width) [left, row] = [0, row + 1]
    places.push([PANEL.left + left, row * LINE_HEIGHT])
    left += own
  }
  return places
}

const legendText = (entries: readonly LegendEntry[], places: readonly Range[], top: number): readonly string[] =>
  entries.flatMap(({ name, color, line: kind }, i) => {
    const [x, below] = places[i]!
    const y = top + below + 6
    return [
      line(`c s${color % LIGHT.length} ${kind}`, [x, y], [x + LEGEND_LINE, y]),
      label(name, [x + LEGEND_LINE + 6, y + 4], ''),
    ]
  })

/**
 * Draws panels with one legend for all names, as SVG text. A name has the color and line of its
 * first series. Equal charts have equal texts.
 *
 * Errors   throws RangeError for a logarithmic axis that does not begin above 0.
 */
export const lineChart = ({ title, description, panels, columns = 2 }: LineChart): string => {
  const all = panels.flatMap(({ series }) => series)
  const names = [...new Set(all.map(({ name }) => name))]
  const entries = names.map((name, place): LegendEntry => {
    const { color = place, line: kind = 'solid' } = all.find((series) => series.name === name)!
    return { name, color, line: kind }
  })
  const styleOf = ({ name }: Series): Style => entries.find((entry) => entry.name === name)!
  const across = Math.min(columns, panels.length)
  const width = across * PANEL.width + 2 * MARGIN
  const bottom = Math.ceil(panels.length / across) * PANEL.height + MARGIN
  const places = legendPlaces(entries, width - PANEL.left - MARGIN)
  const height = bottom + (places.at(-1)?.[1] ?? 0) + LINE_HEIGHT + MARGIN
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="title desc">`,
    `<title id="title">${escaped(title)}</title>`,
    `<desc id="desc">${escaped(description)}</desc>`,
    `<style>${STYLE}</style>`,
    `<clipPath id="plot"><rect x="${PANEL.left}" y="${PANEL.top}" width="${INNER.width}" height="${INNER.height}"/></clipPath>`,
    `<rect class="b" width="${width}" height="${height}"/>`,
    ...panels.flatMap((panel, i) =>
      panelText(panel, [MARGIN + (i % across) * PANEL.width, MARGIN + Math.floor(i / across) * PANEL.height], styleOf),
    ),
    ...legendText(entries, places, bottom),
    '</svg>',
    '',
  ].join('\n')
}
