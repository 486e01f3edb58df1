/** The script of a run's report: charts, and completions with colored tokens. It reads the data that stands in the page. */
;(() => {
  const { charts, trajectories } = JSON.parse(document.getElementById('run-data').textContent)

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()

  const element = (tag, properties = {}, children = []) => {
    const node = Object.assign(document.createElement(tag), properties)
    node.append(...children)
    return node
  }

  const percent = (value) => `${(100 * value).toFixed(1)} %`
  const number = (value) => {
    if (value === 0) return '0'
    return Math.abs(value) < 0.001 ? value.toExponential(2) : String(Number(value.toPrecision(4)))
  }

  // ---- charts ----

  const drawn = []

  const axes = (format, size) => [
    { stroke: color('quiet'), grid: { show: false }, ticks: { stroke: color('line'), size: 4 }, size: 30, space: 60 },
    {
      stroke: color('quiet'),
      grid: { stroke: color('line'), width: 1 },
      ticks: { show: false },
      size,
      space: 24,
      values: (_chart, ticks) => ticks.map(format),
    },
  ]

  const legendOf = (series, format) => {
    const values = series.map(() => element('b'))
    const legend = element(
      'div',
      { className: 'legend' },
      series.map(({ label, stroke, dash }, i) => {
        const swatch = element('i', { className: dash ? 'swatch dashed' : 'swatch' })
        swatch.style.borderTopColor = color(stroke)
        return element('span', {}, [swatch, `${label} `, values[i]])
      }),
    )
    /** The values at a place, or the last ones that are known. */
    const show = (columns, at) => {
      for (const [i, column] of columns.entries()) {
        const last = at ?? column.findLastIndex((value) => value != null)
        const value = column[last]
        values[i].textContent = value == null ? '' : format(value)
      }
    }
    return { legend, show }
  }

  /** One chart: `series` share an axis. Its values follow the pointer; without one they are the last. */
  const chart = (host, { title, steps, series, format, range, height }) => {
    host.setAttribute('role', 'img')
    const { legend, show } = legendOf(series, format)
    const columns = series.map(({ values }) => values)
    const known = columns.map((column) => column.filter((value) => value != null))
    host.setAttribute(
      'aria-label',
      series
        .map(({ label }, i) =>
          known[i].length === 0
            ? label
            : `${label}: ${format(known[i][0])} at first, ${format(known[i].at(-1))} at last`,
        )
        .join('; '),
    )
    if (title) host.append(element('h3', { textContent: title }))
    if (known.every((column) => column.length === 0)) {
      host.append(element('p', { className: 'note', textContent: 'nothing was recorded' }))
      return
    }
    host.append(legend)
    const where = element('span')
    legend.append(where)
    const plot = new uPlot(
      {
        width: host.clientWidth - 20,
        height,
        cursor: { sync: { key: 'run' }, drag: { x: true, y: false }, points: { size: 7 } },
        scales: { x: { time: false }, y: range ? { range } : {} },
        axes: axes(format, 62),
        series: [
          {},
          ...series.map(({ label, stroke, width = 2, dash, points }) => ({
            label,
            stroke: color(stroke),
            width,
            dash,
            spanGaps: true,
            points: { show: points === true || steps.length === 1, size: 7, fill: color(stroke) },
          })),
        ],
        hooks: {
          setCursor: [
            ({ cursor }) => {
              const at = cursor.idx ?? undefined
              show(columns, at)
              where.textContent = at === undefined ? '' : `step ${steps[at]}`
            },
          ],
        },
      },
      [steps, ...columns],
      host,
    )
    show(columns)
    drawn.push({ plot, host, height })
  }

  /** From 0 to a little over the largest share: so that a flat zero is drawn at the bottom. */
  const shares = (_chart, _low, high) => [0, Math.min(1, Math.max(0.04, 1.1 * high))]

  const draws = { points: { width: 3, points: true }, plain: { width: 2 }, dashed: { width: 1.5, dash: [6, 4] } }

  const drawChart = (host, { title, steps, format, lines }, height) => {
    const series = lines.map(({ label, stroke, values, style }) => ({ label, stroke, values, ...draws[style] }))
    const isShare = format === 'percent'
    const range = isShare ? (height > 200 ? [0, 1] : shares) : undefined
    chart(host, { title, steps, series, format: isShare ? percent : number, range, height })
  }

  const drawCharts = () => {
    for (const { plot } of drawn.splice(0)) plot.destroy()
    const learning = document.getElementById('chart-learning')
    const grid = document.getElementById('chart-grid')
    learning.replaceChildren()
    grid.replaceChildren()
    drawChart(learning, charts.learning, 300)
    for (const each of charts.grid) {
      const host = element('div', { className: 'chart' })
      grid.append(host)
      drawChart(host, each, 130)
    }
  }

  // ---- completions ----

  const tip = element('div', { id: 'tip', hidden: true })
  document.body.append(tip)

  const showTip = (target) => {
    tip.textContent = target.dataset.tip
    tip.hidden = false
    const box = target.getBoundingClientRect()
    const left = Math.min(box.left, innerWidth - tip.offsetWidth - 8)
    tip.style.left = `${Math.max(8, left)}px`
    tip.style.top = `${box.top > 60 ? box.top - tip.offsetHeight - 6 : box.bottom + 6}px`
  }

  /** How unlikely a token was: 0 for certain, 1 for a log-probability of -4 or less. */
  const surprise = (logProb) => Math.min(1, -logProb / 4)

  const tokenColor = {
    logProb: ({ logProb }) =>
      logProb === null ? 'transparent' : `rgba(${color('unsure')}, ${(0.75 * surprise(logProb)).toFixed(3)})`,
    advantage: ({ advantage }) => {
      if (advantage === null) return 'transparent'
      const strength = Math.min(1, Math.abs(advantage) / 2)
      return `rgba(${color(advantage > 0 ? 'good' : 'bad')}, ${(0.75 * strength).toFixed(3)})`
    },
  }

  const scales = {
    logProb: () => ['certain', `transparent, rgba(${color('unsure')}, .75)`, 'log-prob −4'],
    advantage: () => [
      'advantage −2',
      `rgba(${color('bad')}, .75), transparent, rgba(${color('good')}, .75)`,
      '+2 (one for a whole completion)',
    ],
  }

  const tokenSpan = (text, logProb, advantage, mode) => {
    const span = element('span', { textContent: text, tabIndex: 0 })
    const shown = JSON.stringify(text)
    const known = logProb === null ? '' : `\nlog-prob ${logProb.toFixed(3)} (p = ${Math.exp(logProb).toFixed(3)})`
    span.dataset.tip = `${shown}${known}\nadvantage ${advantage === null ? 'none' : advantage.toFixed(3)}`
    span.style.background = tokenColor[mode]({ logProb, advantage })
    return span
  }

  const completion = (record, mode) => {
    const advantageOf = (i) => (Array.isArray(record.advantage) ? record.advantage[i] : record.advantage)
    const tokens = record.tokens.map((text, i) => tokenSpan(text, record.logProbs?.[i] ?? null, advantageOf(i), mode))
    const facts = [
      `reward ${number(record.reward)}`,
      `advantage ${typeof record.advantage === 'number' ? number(record.advantage) : record.advantage === null ? 'none' : 'by token'}`,
      record.answer === null ? '' : `right answer ${record.answer.split('####').at(-1).trim()}`,
      record.turn > 0 ? `turn ${record.turn + 1}` : '',
      `${record.tokens.length} tokens`,
      record.stopReason === 'length' ? 'cut off at the token limit' : '',
      record.policyVersion === null ? '' : `policy version ${record.policyVersion}`,
      record.groupId ?? '',
    ]
    return element('div', { className: 'completion' }, [
      element('p', { textContent: record.query }),
      element('div', { className: 'tokens' }, tokens),
      element('p', { className: 'facts', textContent: facts.filter((fact) => fact !== '').join(' · ') }),
    ])
  }

  const host = document.getElementById('trajectories')

  const drawTrajectories = () => {
    if (trajectories.length === 0) {
      host.replaceChildren(element('p', { className: 'note', textContent: 'no completions were recorded' }))
      return
    }
    const steps = [...new Set(trajectories.map(({ step }) => step))]
    const slider = element('input', { type: 'range', min: 0, max: steps.length - 1, value: 0, step: 1 })
    const label = element('output')
    const list = element('div')
    const scale = element('span', { className: 'note' })
    const mode = element('select', {}, [
      element('option', { value: 'logProb', textContent: 'log-probability' }),
      element('option', { value: 'advantage', textContent: 'advantage' }),
    ])
    const draw = () => {
      const step = steps[Number(slider.value)]
      label.textContent = `step ${step}`
      const [low, gradient, high] = scales[mode.value]()
      const bar = element('i', { className: 'scale' })
      bar.style.background = `linear-gradient(to right, ${gradient})`
      scale.replaceChildren(low, bar, high)
      const shown = trajectories.filter((record) => record.step === step)
      list.replaceChildren(...shown.map((record) => completion(record, mode.value)))
    }
    slider.addEventListener('input', draw)
    mode.addEventListener('change', draw)
    host.replaceChildren(
      element('div', { className: 'controls' }, [
        element('label', {}, ['Step ', slider, ' ', label]),
        element('label', {}, ['Color by ', mode]),
        scale,
      ]),
      list,
    )
    draw()
  }

  for (const event of ['pointerover', 'focusin']) {
    host.addEventListener(event, ({ target }) => {
      if (target.dataset?.tip) showTip(target)
      else tip.hidden = true
    })
  }
  for (const event of ['pointerleave', 'focusout']) host.addEventListener(event, () => (tip.hidden = true))
  addEventListener('scroll', () => (tip.hidden = true), { passive: true })

  const draw = () => {
    drawCharts()
    drawTrajectories()
  }
  draw()
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw)
  new ResizeObserver(() => {
    for (const { plot, host, height } of drawn) plot.setSize({ width: host.clientWidth - 20, height })
  }).observe(document.querySelector('main'))
})()
