for (const table of document.querySelectorAll("table.ranking")) {
  const body = table.tBodies[0], rows = [...body.rows];
  const headers = [...table.tHead.rows[0].cells].filter(cell => cell.dataset.sort);
  const keyOf = (row, place) => row.querySelector(`[data-key="${place}"]`)?.dataset.value ?? "";
  for (const header of headers) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => {
      const { sort: place, first, text } = header.dataset;
      const other = first === "ascending" ? "descending" : "ascending";
      const order = header.getAttribute("aria-sort") === first ? other : first;
      for (const each of headers) each.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const sorted = [...rows].sort((one, two) => {
        const [a, b] = [keyOf(one, place), keyOf(two, place)];
        if (a === "" || b === "") return (a === "") - (b === "");
        return sign * (text === undefined ? a - b : a.localeCompare(b));
      });
      body.append(...sorted);
    });
  }
}
