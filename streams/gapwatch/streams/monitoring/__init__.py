"""Rules and dashboards for those who run Prometheus and Grafana, made from a portfolio."""
