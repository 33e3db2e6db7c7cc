document.querySelectorAll("table").forEach(function(t){t.querySelectorAll("th button").forEach(function(b,c){
b.addEventListener("click",function(){var th=b.parentNode,down=th.getAttribute("aria-sort")!=="descending";
t.querySelectorAll("th").forEach(function(o){o.removeAttribute("aria-sort")});
th.setAttribute("aria-sort",down?"descending":"ascending");
var body=t.tBodies[0],rows=Array.prototype.slice.call(body.rows);
rows.sort(function(x,y){var a=x.cells[c].dataset.v,d=y.cells[c].dataset.v,p=parseFloat(a),q=parseFloat(d);
var s=isNaN(p)||isNaN(q)?a.localeCompare(d):p-q;return down?-s:s});
rows.forEach(function(r){body.appendChild(r)})})})});
document.querySelectorAll("tbody").forEach(function(body){function draw(){var shut=Infinity;
Array.prototype.forEach.call(body.rows,function(r){var d=+r.dataset.depth;if(d<=shut)shut=Infinity;r.hidden=d>shut;
if(!r.hidden&&r.classList.contains("shut"))shut=d});
var all=Array.prototype.slice.call(body.closest("table").rows);
Array.prototype.forEach.call(all[0].cells,function(_,c){
var empty=all.every(function(r){return r.hidden||r.cells[c].tagName==="TH"||!r.cells[c].innerHTML});
all.forEach(function(r){r.cells[c].hidden=empty})})}
body.querySelectorAll("td button").forEach(function(b){b.addEventListener("click",function(){
b.closest("tr").classList.toggle("shut");draw()})});draw()});
