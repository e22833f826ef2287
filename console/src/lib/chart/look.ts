// What charts look like: the colours of the console, as they are at this moment.

export interface Look {
  ink: string
  soft: string
  line: string
  surface: string
  raised: string
  series: string[]
  font: string
  /** from little to much, for heat maps */
  ramp: string[]
}

/** Read the colours; canvases know no CSS variables. */
export function currentLook(): Look {
  // a probe turns light-dark() and var() into one colour
  const probe = document.createElement('span')
  probe.hidden = true
  document.body.append(probe)
  const colour = (name: string): string => {
    probe.style.color = `var(${name})`
    return getComputedStyle(probe).color
  }
  const look: Look = {
    ink: colour('--ink'),
    soft: colour('--ink-soft'),
    line: colour('--line'),
    surface: colour('--surface'),
    raised: colour('--raised'),
    series: [1, 2, 3, 4, 5, 6].map((number) => colour(`--chart-${number}`)),
    font: getComputedStyle(document.body).fontFamily,
    ramp: [colour('--sunken'), colour('--chart-2'), colour('--chart-1')],
  }
  probe.remove()
  return look
}

/** Return options that every chart has: no animation, and tooltips drawn on the canvas, as the page's policy wants it. */
export function basics(look: Look): Record<string, unknown> {
  return {
    animation: false,
    useUTC: true,
    color: look.series,
    backgroundColor: 'transparent',
    textStyle: { fontFamily: look.font, fontSize: 12, color: look.soft },
    grid: { left: 12, right: 20, top: 36, bottom: 12, containLabel: true },
    tooltip: {
      trigger: 'axis',
      renderMode: 'richText',
      backgroundColor: look.raised,
      borderColor: look.line,
      textStyle: { color: look.ink, fontSize: 12 },
    },
    legend: { type: 'scroll', top: 4, textStyle: { color: look.soft }, inactiveColor: look.line, pageTextStyle: { color: look.soft } },
  }
}

/** Return how an axis is drawn. */
export function axis(look: Look, more: Record<string, unknown>): Record<string, unknown> {
  return {
    axisLine: { lineStyle: { color: look.line } },
    axisTick: { lineStyle: { color: look.line } },
    axisLabel: { color: look.soft, hideOverlap: true },
    splitLine: { lineStyle: { color: look.line, opacity: 0.6 } },
    nameTextStyle: { color: look.soft },
    ...more,
  }
}
